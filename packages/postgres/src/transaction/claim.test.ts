import { type BeginRequest, type OwnerToken, systemRuntime as runtime } from '@onceward/core/ports'
import { fresh, newEvent } from '@onceward/testing/conformance'
import { expect, it } from 'vitest'
import { slotRequest } from './claim.ts'

const countedRequest = (budgetMs: number): BeginRequest => {
  const counted = { event: newEvent(), attempt: 2, token: 'mine' as OwnerToken, countedAtMs: 0 }
  return { ...fresh(), claim: { kind: 'counted', events: [counted as never] }, budgetMs }
}

// Red when a counted run waits for its whole budget: another process counts it again after five seconds.
it('a counted run waits two seconds for a connection at most, and is served first', () => {
  const wait = (budgetMs: number) => slotRequest(countedRequest(budgetMs), runtime)
  expect(wait(60_000)).toEqual({ runtime, limitMs: 2_000, first: true })
  expect(wait(700)).toEqual({ runtime, limitMs: 700, first: true })
})

it('any other run waits for a connection for its whole budget, in turn', () => {
  const wait = slotRequest({ ...fresh(newEvent()), budgetMs: 60_000 }, runtime)
  expect(wait).toEqual({ runtime, limitMs: 60_000 })
})
