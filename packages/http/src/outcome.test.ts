import { expect, test, vi } from 'vitest'
import type { Exchange } from './exchange.ts'
import { outcomeOf } from './outcome.ts'

const stored = { v: 1, status: 201, headers: [], text: 'charged' } as const
const reply = { status: 201, headers: [], body: 'charged' }

// An error with its stack and its JSON takes a tenth of the time of a request.
test('a problem is made only for a request that gets it', () => {
  const stringify = vi.spyOn(JSON, 'stringify')
  const exchange = { given: { stored, reply } } as unknown as Exchange
  const processed = { kind: 'ack', by: 'processed', result: stored } as const
  expect(outcomeOf(processed, exchange, { nowMs: 0 })).toEqual({ kind: 'reply', reply })
  expect(stringify).not.toHaveBeenCalled()
  const lost = outcomeOf({ ...processed, result: undefined }, exchange, { nowMs: 0 })
  expect(lost).toMatchObject({ kind: 'reply', reply: { status: 500 } })
  expect(stringify).toHaveBeenCalledOnce()
  stringify.mockRestore()
})
