import { expect, test } from 'vitest'
import { type TroubledSetUp, type Troubles, troubled, troubledBatch } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import {
  CommitUnknownError,
  ConfigurationError,
  FatalError,
  type OncewardError,
  RetryableError,
  StoreUnavailableError,
} from '../model/errors.ts'
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
      Array(2).fill({ claim: { kind: 'none' }, waitMs: 0, budgetMs: 60_000, likelyDone: false }),
    )
    const onLate = expect.any(Function)
    expect(asked.commits).toEqual(Array(2).fill({ results: new Map(), recovered: [], onLate }))
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

// Red before: it was logged as a message that is returned unstarted, which no log shows.
test('without a key a handler that a drain leaves running is logged as abandoned', async () => {
  const abort = new AbortController()
  const { clock, guard, logged } = troubled(
    () => {
      abort.abort()
      return new Promise(() => undefined)
    },
    {},
    policy,
  )
  const run = portOf(guard).run([keyless(1)], { abort: abort.signal })
  await turn()
  clock.advance(2_000)
  expect(await run).toEqual([closing])
  expect(logged).toMatchObject([{ level: 'warn', fields: { outcome: 'abandoned' } }])
  await guard.close()
})

// Red before: an infrastructure error was an attempt of the message, which its last delivery made a dead letter.
test.each([
  ['is lost', 'broken', undefined, { kind: 'defer', reason: 'store-down' }],
  ['was too late', 'broken', new RetryableError('late'), { kind: 'dead-letter' }],
  ['was ended by the handler', 'ended', undefined, { kind: 'dead-letter' }],
] as const)('without a key a run whose transaction %s', async (_, status, late, settlement) => {
  const { asked, guard } = troubled(
    () => Promise.reject(new Error('terminated')),
    { transaction: () => ({ status: () => status, outOfTime: () => late as never }) },
    { ...policy, retry: { attempts: 1 } },
  )
  expect(await guard.process(keyless(1))).toMatchObject(settlement)
  // One broken connection says nothing about the store.
  expect(portOf(guard).availability()).toEqual({ kind: 'available' })
  expect(asked.commits).toEqual([])
  await guard.close()
})

// Red before: only the COMMIT of the store asked, after the guard had taken the run for a clean one.
test('without a key a handler that leaves a statement behind that failed has failed', async () => {
  const mistake: OncewardError = new RetryableError('a statement was not awaited')
  const { asked, guard } = troubled(
    () => undefined,
    { transaction: () => ({ ended: () => mistake }) },
    policy,
  )
  expect(await guard.process(keyless(1))).toMatchObject({
    ...{ kind: 'defer', reason: 'failed', error: mistake },
  })
  expect(asked.commits).toEqual([])
  await guard.close()
})

// Red before: it ran without any time left.
test('without a key a transaction that opens after the deadline runs no handler', async () => {
  let runs = 0
  const { clock, guard } = troubled(
    () => {
      runs += 1
    },
    {
      transaction: () => {
        clock.advance(60_000)
        return {}
      },
    },
    policy,
  )
  expect(await guard.process(keyless(1))).toMatchObject({ kind: 'defer', reason: 'in-progress' })
  expect(runs).toBe(0)
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
    // Red before: its cause was `commit-unknown`, as if no answer had come.
    { kind: 'not-replicated', error: unknown },
    { kind: 'abandon', reason: 'commit-unknown', cause: 'not-replicated', error: unknown },
  ],
  [
    // Red before: an attempt of the message.
    { kind: 'rolled-back', error: new StoreUnavailableError('the disk is full') },
    { kind: 'defer', reason: 'store-down' },
  ],
] as const)('without a key a COMMIT that is answered %j', async (answer, settlement) => {
  const { guard } = troubled(() => undefined, answering(answer), policy)
  expect(await guard.process(keyless(1))).toMatchObject(settlement)
  await guard.close()
})

// Red before: any error paused the consumer, also a defect that concerns this message alone.
test.each([
  ['rejects', 'it is down', 'down', () => Promise.reject(new StoreUnavailableError('it is down'))],
  ['has a defect', 'a bug', 'available', () => Promise.reject(new Error('a bug'))],
  ['opens nothing', 'did not open', 'available', async () => ({ kind: 'held' }) as const],
] as const)(
  'without a key a message whose transaction %s is deferred (%s, the store is %s)',
  async (_, message, kind, begin) => {
    const { clock, guard } = troubled(() => undefined, { session: () => ({ begin }) }, policy)
    const until = clock.runtime.now() + 1_000
    expect(await guard.process(keyless(1))).toMatchObject({
      kind: 'defer',
      reason: 'store-down',
      until,
      error: { message: expect.stringContaining(message) },
    })
    expect(portOf(guard).availability()).toMatchObject({ kind })
    clock.advance(750)
    // The slot was released.
    expect(await guard.process(keyless(1))).toMatchObject({ kind: 'defer', reason: 'store-down' })
    await guard.close()
  },
)

test('without a key a table that is missing is named by health', async () => {
  const error = new ConfigurationError('a table is missing')
  const { guard } = troubled(() => undefined, answering({ kind: 'rolled-back', error }), policy)
  await expect(guard.process(keyless(1))).rejects.toBe(error)
  expect(portOf(guard).availability()).toMatchObject({ kind: 'down', error })
  await guard.close()
})

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
