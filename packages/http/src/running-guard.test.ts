import type { OutcomeRecord } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { describe, expect, test, vi } from 'vitest'
import { HttpProblem } from './answer/problem.ts'
import { guardOf, requestOf, type Sent, type Shown, shown } from './fixtures/charges.ts'
import { createHttpGuard, type HttpGuard, runningOf } from './http-guard.ts'
import { fromWebRequest } from './request/request.ts'

const send = async (guard: HttpGuard, sent: Sent = {}): Promise<Shown> =>
  shown(await guard.fetch(requestOf(sent)))

function logging() {
  const lines: (readonly [level: string, fields: object, text: string])[] = []
  const log = (level: string) => (fields: object, text: string) =>
    void lines.push([level, fields, text])
  const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
  return { lines, logger }
}

test.each([
  [undefined, 'undefined'],
  [null, 'null'],
  ['charge', 'string'],
])('%s is no handler, and the error says how to write one', (handler, type) => {
  const options = { consumer: 'charges', inbox: memoryInbox(), tenant: 'none' } as const
  expect(() => createHttpGuard(options, handler as never)).toThrow(
    `Expected a handler as the second argument of createHttpGuard, got ${type}. Write`,
  )
})

describe('a body', () => {
  test('that cannot be read fails the request alone, and is reported', async () => {
    const { lines, logger } = logging()
    const guard = guardOf(() => undefined, { logger })
    const request = requestOf()
    await request.text()
    expect((await guard.fetch(request)).status).toBe(500)
    expect(lines).toMatchObject([
      [
        'error',
        { consumer: 'charges', err: { message: expect.stringMatching(/Call the guard first/) } },
        expect.stringMatching(/outside of its handler/),
      ],
    ])
    expect(guard.health().inFlight).toBe(0)
    await guard.close()
  })

  // Red when a client that hangs up, which happens all the time, is an error in the log.
  test('whose client hangs up half-way is no error', async () => {
    const { lines, logger } = logging()
    const guard = guardOf(() => undefined, { logger })
    const incoming = fromWebRequest(requestOf(), {
      readBytes: () => Promise.reject(new Error('aborted')),
    })
    await runningOf('test', guard).handle({ ...incoming, isGone: () => true })
    expect(lines).toMatchObject([
      ['debug', { consumer: 'charges', err: { message: 'aborted' } }, expect.any(String)],
    ])
    await guard.close()
  })
})

describe('a problem that is thrown as the answer', () => {
  test('is committed by a second run, which does not call the handler', async () => {
    const records: OutcomeRecord[] = []
    const handler = vi.fn(() => {
      throw new HttpProblem({ status: 402, title: 'declined', store: true })
    })
    const guard = guardOf(handler, { observe: (record) => void records.push(record) })
    expect((await send(guard, { key: 'k' })).status).toBe(402)
    expect(handler).toHaveBeenCalledTimes(1)
    expect(records.map(({ settlement }) => settlement.kind)).toEqual(['defer', 'ack'])
    await guard.close()
  })

  // Red when the second run is tried for ever.
  test('and cannot be stored is tried once', async () => {
    const handler = vi.fn(() => {
      throw new HttpProblem({ status: 402, title: 'x'.repeat(100_000), store: true })
    })
    const guard = guardOf(handler)
    expect((await send(guard, { key: 'k' })).status).toBe(500)
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('by a function that reads the request is no answer of the handler', async () => {
    const decode = vi.fn(() => {
      throw new HttpProblem({ status: 403, title: 'closed', store: true })
    })
    const guard = guardOf(() => undefined, { decode })
    expect((await send(guard, { key: 'k' })).status).toBe(403)
    expect(decode).toHaveBeenCalledTimes(1)
    await guard.close()
  })
})

test.each([
  [undefined, false],
  ['finish', false],
  ['abort', true],
] as const)(
  'with onHangUp %s a client that hangs up aborts the run: %s',
  async (onHangUp, aborts) => {
    const started = Promise.withResolvers<AbortSignal>()
    const gate = Promise.withResolvers<void>()
    const guard = guardOf(
      async (_event, { signal }) => {
        started.resolve(signal)
        await gate.promise
      },
      { onHangUp },
    )
    const client = new AbortController()
    const answering = guard.fetch(new Request(requestOf(), { signal: client.signal }))
    const signal = await started.promise
    client.abort()
    expect(signal.aborted).toBe(aborts)
    gate.resolve()
    await answering
    await guard.close()
  },
)
