import { ConfigurationError, FatalError, StoreUnavailableError } from '@onceward/core'
import { type MemoryInbox, memoryInbox, memoryLeases } from '@onceward/core/memory'
import type { InboxSession } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { turn } from '@onceward/testing/adapter'
import { describe, expect, test, vi } from 'vitest'
import { HttpProblem } from '../answer/problem.ts'
import { kindOf } from '../fixtures/charges.ts'
import {
  changedInbox,
  deliver,
  type Given,
  laterGuard,
  whileTimePasses,
} from '../fixtures/later.ts'
import { createWebhookGuard } from './index.ts'

const accepted = { status: 202, text: '' }
const answering = new HttpProblem({ status: 402, title: 'x', store: true })
const isTypeError = (error: unknown): boolean => error instanceof TypeError

describe('a delivery whose handler runs later', () => {
  test('is answered 202 before its run, which waits for no timer, and so is each duplicate', async () => {
    const gate = Promise.withResolvers<void>()
    const handler = vi.fn(() => gate.promise)
    const { guard, records } = laterGuard(handler)
    const answers = [await deliver(guard, 'e')]
    await until(() => handler.mock.calls.length === 1)
    answers.push(await deliver(guard, 'e'))
    gate.resolve()
    await until(() => records.some(({ parked }) => parked === true))
    answers.push(await deliver(guard, 'e'))
    for (const answer of answers) expect(answer).toEqual({ ...answers[0], ...accepted })
    await guard.close()
    expect(handler).toHaveBeenCalledTimes(1)
  })

  test('is reported when it is accepted, when it comes again, and when it has run', async () => {
    const { guard, records } = laterGuard(() => undefined)
    await deliver(guard, 'e')
    await until(() => records.length === 2)
    await deliver(guard, 'e')
    expect(records.map(({ parked, settlement }) => [settlement, parked])).toEqual([
      [{ kind: 'ack', by: 'parked' }, undefined],
      [{ kind: 'ack', by: 'processed' }, true],
      [{ kind: 'ack', by: 'duplicate' }, undefined],
    ])
    expect(records[1]).toMatchObject({ attempt: 1, messageAgeMs: 0 })
    await guard.close()
  })

  test('that comes many times at once runs once', async () => {
    const handler = vi.fn()
    const { guard, records } = laterGuard(handler)
    const ids = Array.from({ length: 60 }, (_, index) => `e${index % 20}`)
    const answers = await Promise.all(ids.map((id) => deliver(guard, id)))
    for (const answer of answers) expect(answer).toMatchObject(accepted)
    await until(() => handler.mock.calls.length >= 20)
    await until(() => records.filter(({ parked }) => parked === true).length === 20)
    await guard.close()
    expect(handler).toHaveBeenCalledTimes(20)
  })

  test('reaches the handler with the bytes, the method, the URL and the stored headers', async () => {
    const seen = vi.fn()
    const decode = (
      bytes: Uint8Array,
      { headers, original }: { headers: Headers; original: unknown },
    ) => [[...bytes], [...headers.keys()], original]
    const tenant: Given['tenant'] = ({ headers }) => headers.get('authorization') ?? undefined
    const { guard } = laterGuard((event) => void seen(event), {
      ...{ tenant, decode, requestHeaders: ['X-Shop'] },
    } as Given)
    const body = Uint8Array.from({ length: 256 }, (_, index) => index)
    const headers = {
      ...{ 'content-type': 'application/octet-stream', 'x-shop': 'é', 'x-github-event': 'push' },
      ...{ authorization: 'acct_1', cookie: 'a=b', 'x-signature': 'good', 'x-other': '1' },
    }
    expect(await deliver(guard, 'e', { body, headers })).toMatchObject(accepted)
    await until(() => seen.mock.calls.length === 1)
    const [event] = seen.mock.calls[0] ?? []
    const { idempotencyKey, key, payload, request, tenant: account } = event
    const stored = { 'content-type': 'application/octet-stream', 'x-github-event': 'push' }
    expect(Object.fromEntries(request.headers)).toEqual({ ...stored, 'x-shop': 'é' })
    expect(Buffer.from(request.bytes).equals(Buffer.from(body))).toBe(true)
    expect(request).toMatchObject({ method: 'POST', url: 'http://localhost/webhooks?shop=7' })
    expect(request.original).toBeUndefined()
    expect([key, account, typeof idempotencyKey]).toEqual(['e', 'acct_1', 'string'])
    expect(payload).toEqual([[...body], ['content-type', 'x-github-event', 'x-shop'], undefined])
    await guard.close()
  })

  test('is retried with the back-off of the guard, without another delivery', async () => {
    const handler = vi.fn(() => {
      if (handler.mock.calls.length < 3) throw new Error('not now')
    })
    const { clock, guard, records } = laterGuard(handler, { retry: { baseMs: 60_000 } } as Given)
    expect(await deliver(guard, 'e')).toMatchObject(accepted)
    await until(() => records.length === 2)
    expect(records[1]).toMatchObject({ cause: 'handler-failed', attempt: 1, parked: true })
    expect(await deliver(guard, 'e')).toMatchObject(accepted)
    await turn()
    expect(handler).toHaveBeenCalledTimes(1)
    await whileTimePasses(clock, () => handler.mock.calls.length === 3)
    await until(() => records.at(-1)?.settlement.kind === 'ack')
    expect(records.at(-1)).toMatchObject({ attempt: 3 })
    await guard.close()
  })

  test('is a dead letter when its attempts are spent, and a duplicate does not run it again', async () => {
    const handler = vi.fn(() => Promise.reject(new Error('never')))
    const { clock, guard, memory } = laterGuard(handler, { retry: { attempts: 2 } } as Given)
    await deliver(guard, 'e')
    await whileTimePasses(clock, () => memory.deadLetters().length === 1)
    expect(memory.deadLetters()).toMatchObject([
      { key: 'e', reason: 'attempts-spent', attempts: 2 },
    ])
    expect(await deliver(guard, 'e')).toMatchObject(accepted)
    await clock.advance(60_000)
    expect(handler).toHaveBeenCalledTimes(2)
    await guard.close()
  })

  test.each([
    ['FatalError', new FatalError('no such account'), isTypeError],
    ['a problem that is the answer', answering, isTypeError],
    ['a problem that is the answer, if no isFatal is given', answering, undefined],
    ['an error that isFatal knows', new TypeError('fatal here'), isTypeError],
  ])(
    'is a dead letter at once after %s, and runs again when replayed',
    async (_, error, isFatal) => {
      const handler = vi.fn(() => {
        if (handler.mock.calls.length === 1) throw error
      })
      const { clock, guard, memory, records } = laterGuard(handler, { isFatal } as Given)
      await deliver(guard, 'e')
      await until(() => memory.deadLetters().length === 1)
      const [letter] = memory.deadLetters()
      expect(letter).toMatchObject({ key: 'e', reason: 'fatal', attempts: 1 })
      if (letter !== undefined) memory.replay(letter.ref)
      await whileTimePasses(clock, () => records.at(-1)?.settlement.kind === 'ack')
      expect(handler.mock.calls.length).toBe(2)
      await guard.close()
    },
  )

  test.each([
    ['a problem that is not stored', () => new HttpProblem({ status: 402, title: 'x' })],
    ['any other error', () => new Error('x')],
  ])('is retried after %s', async (_, make) => {
    const { guard, lines, memory, records } = laterGuard(() => {
      throw make()
    })
    await deliver(guard, 'e')
    await until(() => records.length === 2)
    expect(records[1]?.settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(memory.deadLetters()).toEqual([])
    expect(lines.filter(([, , text]) => text.includes('isFatal'))).toEqual([])
    await guard.close()
  })

  test('that takes long holds up no other', async () => {
    const gate = Promise.withResolvers<void>()
    const ran: string[] = []
    const { guard } = laterGuard(
      async ({ key }) => {
        if (key.startsWith('slow')) await gate.promise
        else ran.push(key)
      },
      { concurrency: 4 },
    )
    for (const id of ['slow-1', 'slow-2', 'slow-3']) await deliver(guard, id)
    const ids = Array.from({ length: 30 }, (_, index) => `fast-${index}`)
    for (const id of ids) await deliver(guard, id)
    await until(() => ran.length === 30)
    gate.resolve()
    await guard.close()
    expect(ran.toSorted()).toEqual(ids.toSorted())
  })
})

// Red when what the handler returns is ignored: the event was done, the provider had its 202, and the effect was lost.
test.each<readonly [string, () => unknown]>([
  ['a function', () => () => undefined],
  [
    'an asynchronous generator',
    async function* () {
      yield 1
    },
  ],
  ['a query that is not executed', async () => ({ execute: async () => undefined })],
])('a delivery whose handler runs later and returns %s fails', async (_what, handler) => {
  const { guard, records } = laterGuard(handler as () => void)
  expect(await deliver(guard, 'e')).toMatchObject({ status: 202 })
  await until(() => records.length === 2)
  expect(records[1]).toMatchObject({
    ...{ cause: 'handler-failed', parked: true },
    settlement: { error: { message: expect.stringContaining('a query that was not executed') } },
  })
  await guard.close()
})

describe('a delivery that cannot be accepted', () => {
  const nothingIn = (memory: MemoryInbox<undefined>) => async (id: string) => {
    const handler = vi.fn()
    const { clock, guard } = laterGuard(handler, {}, memory)
    await clock.advance(20_000)
    expect(handler, id).not.toHaveBeenCalled()
    await guard.close()
  }

  test('is answered 503 while the store is down, and is accepted when it comes again', async () => {
    const memory = memoryInbox()
    let isDown = true
    const inbox = changedInbox(memory, (session) => ({
      park: (events, waitMs) => {
        if (isDown) return Promise.reject(new StoreUnavailableError('down'))
        return session.park(events, waitMs)
      },
    }))
    const handler = vi.fn()
    const { clock, guard } = laterGuard(handler, { inbox })
    const answer = await deliver(guard, 'e')
    expect([answer.status, kindOf(answer)]).toEqual([503, 'unavailable'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
    await nothingIn(memory)('e')
    isDown = false
    await clock.advance(60_000)
    expect(await deliver(guard, 'e')).toMatchObject(accepted)
    await until(() => handler.mock.calls.length === 1)
    await guard.close()
  })

  test.each([
    ['larger than the inbox stores', { kind: 'too-large' }, [413, 'body-too-large']],
    ['held by another transaction', { kind: 'held' }, [409, 'in-flight']],
  ] as const)('%s is refused with a problem', async (_, answer, expected) => {
    const park: InboxSession<undefined>['park'] = async () => [answer]
    const { guard, lines } = laterGuard(() => undefined, {
      inbox: changedInbox(memoryInbox(), () => ({ park })),
    })
    const shown = await deliver(guard, 'e')
    expect([shown.status, kindOf(shown)]).toEqual(expected)
    const isTold = lines.some(([level, , text]) => level === 'warn' && /maxStoredBytes/.test(text))
    expect(isTold).toBe(answer.kind === 'too-large')
    await guard.close()
  })

  test('is not stored: a bad signature, no event id, no JSON, a payload against the schema', async () => {
    const memory = memoryInbox()
    const schema = {
      '~standard': {
        ...({ version: 1, vendor: 'test' } as const),
        validate: (value: unknown) =>
          Object(value).cents === 500 ? { value } : { issues: [{ message: 'no' }] },
      },
    }
    const { guard, records } = laterGuard(() => undefined, { schema } as Given, memory)
    const answers = [
      await deliver(guard, 'e', { headers: { 'x-signature': 'forged' } }),
      await deliver(guard, ''),
      await deliver(guard, 'e', { body: '{' }),
      await deliver(guard, 'e', { body: '{"cents":1}' }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([401, 400, 400, 400])
    expect(records.every(({ settlement }) => settlement.kind === 'dead-letter')).toBe(true)
    expect(memory.deadLetters()).toEqual([])
    await nothingIn(memory)('e')
    await guard.close()
  })

  test('because its id was used with another body is answered 422, if bodies are compared', async () => {
    const handler = vi.fn()
    const { guard } = laterGuard(handler, { fingerprint: 'body' })
    expect(await deliver(guard, 'e')).toMatchObject(accepted)
    const other = await deliver(guard, 'e', { body: '{"cents":1}' })
    expect([other.status, kindOf(other)]).toEqual([422, 'key-reused'])
    expect(await deliver(guard, 'e')).toMatchObject(accepted)
    await guard.close()
  })
})

test('options that have no effect, or cannot work, are refused when the guard is made', () => {
  const verify = (): { kind: 'refused' } => ({ kind: 'refused' })
  const inbox = memoryInbox()
  const make = (options: object) => () =>
    createWebhookGuard({ consumer: 'c', verify, ...options } as never, () => undefined)
  const leases = memoryLeases()
  expect(make({ run: 'later', leases, onTakeover: 'retry' })).toThrow(ConfigurationError)
  expect(make({ run: 'later', leases, onTakeover: 'retry' })).toThrow(
    /Expected an `inbox` with `run: 'later'`/,
  )
  expect(make({ run: 'later' })).toThrow(/Expected an `inbox`/)
  expect(make({ run: 'later', inbox, leases })).toThrow(/Expected no `leases` with `run: 'later'`/)
  expect(make({ run: 'soon', inbox })).toThrow(/`run` to be 'now' or 'later', got `soon`/)
  expect(make({ run: 'later', inbox, storedHeaders: ['x-a'] })).toThrow(/no `storedHeaders`/)
  expect(make({ run: 'later', inbox, onHangUp: 'abort' })).toThrow(/no `onHangUp`/)
  for (const option of [
    { retry: { attempts: 3 } },
    { isFatal: () => true },
    { requestHeaders: [] },
  ]) {
    const [name] = Object.keys(option)
    expect(make({ inbox, ...option })).toThrow(`Expected no \`${name}\` with \`run: 'now'\``)
  }
  expect(make({ run: 'later', inbox, requestHeaders: ['Authorization'] })).toThrow(
    /without `Authorization`: a credential must not be stored/,
  )
  expect(make({ run: 'later', inbox, requestHeaders: ['a b'] })).toThrow(/names of headers/)
  expect(make({ run: 'later', inbox, retry: { attempts: 0 } })).toThrow(/attempts/)
  expect(make({ run: 'later', inbox, isFatal: true })).toThrow(/isFatal/)
})
