import { expect, test } from 'vitest'
import { type TroubledSetUp, type Troubles, troubled, troubledBatch } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { CommitUnknownError, FatalError, StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { CommitAnswer } from '../model/inbox.ts'

const keyless = (payload: unknown) => toDelivery(payload, { headers: {} })
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const unguarded = { kind: 'ack', by: 'unguarded' } as const
const closing = { kind: 'abandon', reason: 'closing', cause: 'draining' } as const
const policy = { concurrency: 1, onMissingKey: 'unguarded' } as const

const answering = (answer: CommitAnswer): Troubles => ({
  transaction: () => ({ commit: async () => answer }),
})

for (const [kind, make] of [
  ['one by one', troubled],
  ['together', troubledBatch],
] as const) {
  test(`a message without a key runs in a transaction without a claim, for handlers that run ${kind}`, async () => {
    const attempts: number[] = []
    const { asked, clock, guard, records } = make(
      (given: unknown) => {
        const event = kind === 'together' ? (given as readonly unknown[])[0] : given
        attempts.push((event as { attempt: number }).attempt)
        clock.advance(7)
      },
      {},
      policy,
    ) as TroubledSetUp
    expect(await guard.process(keyless(1))).toEqual(unguarded)
    expect(await guard.process({ ...keyless(2), deliveryCount: 3 })).toEqual(unguarded)
    expect(asked.begins).toEqual(
      Array(2).fill({ claim: { kind: 'none' }, waitMs: 0, budgetMs: 60_000 }),
    )
    expect(asked.commits).toEqual(Array(2).fill({ results: new Map(), recovered: [] }))
    expect(attempts).toEqual([1, 3])
    expect(records.map(({ handlerMs }) => handlerMs)).toEqual([7, 7])
    await guard.close()
  })
}

test('without a key a failed handler is rolled back, and the delivery count decides between retry and dead letter', async () => {
  let rollbacks = 0
  const { asked, guard } = troubled(
    ({ payload }) => {
      throw payload === 'fatal' ? new FatalError('never') : new Error('not yet')
    },
    {
      transaction: (transaction) => ({
        rollback: () => {
          rollbacks += 1
          return transaction.rollback()
        },
      }),
    },
    policy,
  )
  expect(await guard.process(keyless('later'))).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(await guard.process(keyless('fatal'))).toMatchObject({
    kind: 'dead-letter',
    reason: 'fatal',
  })
  expect([rollbacks, asked.commits]).toEqual([2, []])
  await guard.close()
})

// Red before: acked as processed, and the effect never happened.
test.each([
  ['a query that nobody runs', { execute: () => undefined }],
  ['a function', () => undefined],
])('without a key a handler that returns %s has failed and commits nothing', async (_, value) => {
  for (const make of [troubled, troubledBatch]) {
    const { asked, guard } = make(() => value as never, {}, policy)
    expect(await guard.process(keyless(1))).toMatchObject({
      ...{ kind: 'defer', reason: 'failed' },
      error: { message: expect.stringContaining('not committed') },
    })
    expect(asked.commits).toEqual([])
    await guard.close()
  }
})

test('without a key the transaction handle refuses past the deadline', async () => {
  const revoked: unknown[] = []
  const { asked, clock, guard } = troubled(
    () => {
      clock.advance(60_000)
      return new Promise(() => undefined)
    },
    { transaction: () => ({ revoke: (error) => void revoked.push(error) }) },
    policy,
  )
  const failed = { kind: 'defer', reason: 'failed', error: { code: 'ONCEWARD_DEADLINE_EXCEEDED' } }
  expect(await guard.process(keyless(1))).toMatchObject(failed)
  expect(revoked).toHaveLength(1)
  expect(asked.commits).toEqual([])
  await guard.close()
})

test('without a key a drain that runs out of time aborts the handler', async () => {
  const abort = new AbortController()
  const { guard } = troubled(
    (_, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopping')))
        abort.abort()
      }),
    {},
    policy,
  )
  expect(await portOf(guard).run([keyless(1)], { abort: abort.signal })).toEqual([closing])
  await guard.close()
})

const unknown = new CommitUnknownError('no answer')
const refused = Object.assign(new Error('check'), { code: '23514' })

test.each([
  [
    { kind: 'rolled-back', error: refused },
    { kind: 'defer', reason: 'failed', error: refused },
  ],
  [
    { kind: 'unknown', error: unknown },
    { kind: 'abandon', reason: 'commit-unknown', cause: 'commit-unknown', error: unknown },
  ],
  [
    { kind: 'not-replicated', error: unknown },
    { kind: 'abandon', reason: 'commit-unknown', cause: 'commit-unknown', error: unknown },
  ],
] as const)('without a key a COMMIT that is answered %j', async (answer, settlement) => {
  const { guard } = troubled(() => undefined, answering(answer), policy)
  expect(await guard.process(keyless(1))).toMatchObject(settlement)
  await guard.close()
})

test.each([
  ['rejects', 'it is down', () => Promise.reject(new StoreUnavailableError('it is down'))],
  ['opens nothing', 'did not open', async () => ({ kind: 'held' }) as const],
])(
  'without a key a transaction that %s defers, and the store is down',
  async (_, message, begin) => {
    const { clock, guard } = troubled(() => undefined, { session: () => ({ begin }) }, policy)
    const until = clock.runtime.now() + 1_000
    expect(await guard.process(keyless(1))).toMatchObject({
      kind: 'defer',
      reason: 'store-down',
      until,
      error: { message: expect.stringContaining(message) },
    })
    expect(portOf(guard).availability()).toMatchObject({ kind: 'down' })
    clock.advance(750)
    // The slot was released.
    expect(await guard.process(keyless(1))).toMatchObject({ kind: 'defer', reason: 'store-down' })
    await guard.close()
  },
)

test('a message without a key that waits for a slot is returned after a stop', async () => {
  const gate = Promise.withResolvers<void>()
  const stop = new AbortController()
  const { asked, guard } = troubled(() => gate.promise, {}, policy)
  const first = guard.process(keyless(1))
  await turn()
  const second = portOf(guard).run([keyless(2)], { stop: stop.signal })
  await turn()
  stop.abort()
  expect(await second).toEqual([closing])
  gate.resolve()
  expect(await first).toEqual(unguarded)
  expect(asked.begins).toHaveLength(1)
  expect(await guard.process(keyless(3))).toEqual(unguarded)
  await guard.close()
})

test('a message without a key whose turn comes during a shutdown is returned', async () => {
  const decoded = Promise.withResolvers<number>()
  const stop = new AbortController()
  const { asked, guard } = troubled(
    () => undefined,
    {},
    { ...policy, decode: () => decoded.promise },
  )
  const run = portOf(guard).run([keyless(1)], { stop: stop.signal })
  await turn()
  stop.abort()
  decoded.resolve(1)
  expect(await run).toEqual([closing])
  expect(asked.begins).toEqual([])
  // The slot was released.
  expect(await guard.process(keyless(2))).toEqual(unguarded)
  await guard.close()
})

test.each([
  ['that was committed closes the breaker', undefined, 'available'],
  ['that failed closes the breaker', new Error('not yet'), 'available'],
  ['whose commit had no answer leaves it open', 'unknown', 'down'],
] as const)('after an outage a run without a key %s', async (_, end, kind) => {
  let begins = 0
  const unknown = { kind: 'unknown', error: new CommitUnknownError('no answer') } as const
  const { clock, guard } = troubled(
    () => {
      if (end instanceof Error) throw end
    },
    {
      session: (session) => ({
        begin: (request) => {
          begins += 1
          const down = new StoreUnavailableError('down')
          return begins === 1 ? Promise.reject(down) : session.begin(request)
        },
      }),
      transaction: (transaction) => ({
        commit: async (work) => (end === 'unknown' ? unknown : transaction.commit(work)),
      }),
    },
    policy,
  )
  await guard.process(keyless(1))
  expect(portOf(guard).availability()).toMatchObject({ kind: 'down' })
  clock.advance(750)
  await guard.process(keyless(2))
  expect(portOf(guard).availability()).toMatchObject({ kind })
  await guard.close()
})
