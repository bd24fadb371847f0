import { expect, test } from 'vitest'
import { type TroubledSetUp, type Troubles, troubled, troubledBatch } from '../fixtures/troubled.ts'
import { memoryLeases, toDelivery } from '../memory/index.ts'
import type { DeadLetterRef } from '../model/dead-letter.ts'
import { FatalError, type OncewardError, StoreUnavailableError } from '../model/errors.ts'
import type { TransactionStatus } from '../model/inbox.ts'

const LATEST_START_MS = 4_000
const DEADLINE_MS = 60_000

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })
const coded = (code: string): Error => Object.assign(new Error(code), { code })
const never = (): Promise<never> => new Promise(() => undefined)

const processed = { kind: 'ack', by: 'processed' } as const
const failed = { kind: 'defer', reason: 'failed' } as const
const storeDown = { kind: 'defer', reason: 'store-down' } as const

/** Makes the first transaction report this status. Nothing of that transaction is committed. */
const withStatus = (status: TransactionStatus): Troubles => ({
  transaction: (_, n) => (n === 1 ? { status: () => status } : {}),
})

test.each([
  [LATEST_START_MS, [] as const],
  [LATEST_START_MS + 1, ['no-verdict'] as const],
])('a counted run whose claim took %i ms is released %j and runs once', async (ms, released) => {
  const attempts: number[] = []
  const { asked, clock, guard } = troubled(({ attempt }) => void attempts.push(attempt), {
    transaction: (_, n) => {
      if (n === 1) clock.advance(ms)
      return {}
    },
  })
  expect(await guard.process(suspect('a'))).toEqual(processed)
  expect(attempts).toEqual([1])
  expect(asked.releases.map(({ as }) => as)).toEqual(released)
  await guard.close()
})

test.each([
  [DEADLINE_MS - 1, processed, ['a']],
  [DEADLINE_MS, { kind: 'defer', reason: 'in-progress' }, []],
])('a claim that took %i ms of the deadline is settled as %j', async (ms, settlement, run) => {
  const runs: unknown[] = []
  const { asked, clock, guard } = troubled(({ payload }) => void runs.push(payload), {
    transaction: () => {
      clock.advance(ms)
      return {}
    },
  })
  expect(await guard.process(named('a'))).toMatchObject(settlement)
  expect(asked.begins).toMatchObject([{ budgetMs: DEADLINE_MS }])
  expect(runs).toEqual(run)
  await guard.close()
})

test('the commit stores results and deletes the failure rows of its events', async () => {
  const { asked, guard, inbox } = troubled(({ payload }) =>
    payload === 'a' ? { a: 1 } : undefined,
  )
  await guard.process(named('a'))
  await guard.process(suspect('b'))
  const [first, second] = asked.commits
  expect([...(first?.results.values() ?? [])]).toEqual(['{"a":1}'])
  expect([first?.recovered, second?.recovered.length, second?.results.size]).toEqual([[], 1, 0])
  expect(inbox.deadLetters()).toEqual([])
  await guard.close()
})

for (const [kind, make] of [
  ['one by one', troubled],
  ['together', troubledBatch],
] as const) {
  test(`handlers that run ${kind}: the record has the attempt and how long it took`, async () => {
    const attempts: number[] = []
    const { clock, guard, records } = make(
      (given: unknown) => {
        attempts.push(...[given].flat().map((event) => (event as { attempt: number }).attempt))
        clock.advance(7)
        if (attempts.length === 1) throw new Error('not yet')
      },
      {},
      { transaction: 'batch' },
    ) as TroubledSetUp
    expect(await guard.process(named('a'))).toMatchObject(failed)
    const { timers } = clock
    clock.advance(1_000)
    expect(await guard.process(named('a'))).toEqual(processed)
    expect(attempts).toEqual([1, 2])
    expect(records).toMatchObject([
      { attempt: 1, handlerMs: 7 },
      { attempt: 2, handlerMs: 7 },
    ])
    expect(clock.timers).toBe(timers)
    await guard.close()
  })

  test(`handlers that run ${kind}: past the deadline the handle refuses, and nothing is committed`, async () => {
    const revoked: OncewardError[] = []
    const { asked, clock, guard } = make(
      () => {
        clock.advance(DEADLINE_MS)
        return never()
      },
      { transaction: () => ({ revoke: (error) => void revoked.push(error) }) },
      { transaction: 'batch' },
    ) as TroubledSetUp
    expect(await guard.process(named('a'))).toMatchObject({ ...failed, error: revoked[0] })
    expect(revoked).toMatchObject([{ code: 'ONCEWARD_DEADLINE_EXCEEDED' }])
    expect(asked.commits).toEqual([])
    await guard.close()
  })

  test(`handlers that run ${kind}: a stored event that the current options refuse does not reach them`, async () => {
    let runs = 0
    let isSkipped = false
    const { clock, guard, inbox } = make(
      () => {
        runs += 1
        throw new FatalError('a bug')
      },
      {},
      { skip: () => isSkipped, transaction: 'batch' },
    ) as TroubledSetUp
    await guard.process(named('a'))
    isSkipped = true
    const [letter] = inbox.deadLetters()
    expect(inbox.replay(letter?.ref as DeadLetterRef)).toBe(true)
    const errorOnceRun = () => {
      clock.advance(1_000)
      return inbox.deadLetters()[0]?.error
    }
    await expect.poll(errorOnceRun).toContain('skipped by the current options')
    expect(runs).toBe(1)
    await guard.close()
  })

  // Red before: the lease of a handler that may still run was freed, which the other strategies never did.
  test(`handlers that run ${kind}: a lost lease ends only the run of its event, and is not freed`, async () => {
    const runs: unknown[] = []
    let freed = 0
    const setUp = make(
      (given: unknown) => {
        const payloads = [given].flat().map((event) => (event as { payload: unknown }).payload)
        runs.push(payloads.join())
        if (!payloads.includes('b')) return
        setUp.clock.advance(3_000)
        return never()
      },
      {},
      {
        leaseMs: 9_000,
        leases: {
          ...memoryLeases(),
          claim: async (claims) =>
            claims.map(() => ({ kind: 'acquired', by: 'first', attempt: 1 })),
          renew: async (held) => held.map((_, index) => (index === 1 ? 'lost' : 'held')),
          release: async (held) => {
            freed += held.length
            return held.map(() => 'lost')
          },
        },
        transaction: 'batch',
      },
    )
    expect(await setUp.guard.processBatch(['a', 'b', 'c'].map(suspect))).toMatchObject([
      processed,
      {
        kind: 'abandon',
        reason: 'lease-lost',
        cause: 'lease-lost',
        error: { code: 'ONCEWARD_LEASE_LOST' },
      },
      processed,
    ])
    expect(runs).toEqual(kind === 'together' ? ['a,b,c', 'a,c'] : ['a', 'b', 'a', 'c'])
    expect(setUp.asked.releases).toMatchObject([{ event: { key: 'b' }, as: 'given-back' }])
    await setUp.guard.close()
    expect(freed).toBe(0)
  })
}

test('a failed statement whose error is swallowed makes the run fail', async () => {
  const { guard, inbox } = troubled(() => undefined, withStatus('failed'), {
    retry: { attempts: 1 },
  })
  expect(await guard.process(named('a'))).toMatchObject({
    kind: 'dead-letter',
    error: {
      code: 'ONCEWARD_RETRYABLE',
      message: expect.stringContaining('rolled the transaction'),
    },
  })
  expect(inbox.deadLetters()).toHaveLength(1)
  await guard.close()
})

test.each([
  ['failed', coded('40001'), processed, 2],
  ['failed', new StoreUnavailableError('another store'), failed, 1],
  ['failed', new TypeError('a bug'), failed, 1],
  // Errors that do not come from a statement.
  ['open', coded('40001'), failed, 1],
  ['open', new StoreUnavailableError('another store'), failed, 1],
] as const)(
  'an error that a handler throws with a transaction that is %s: %s',
  async (status, error, settlement, runs) => {
    let ran = 0
    const { clock, guard } = troubled(() => {
      ran += 1
      if (ran === 1) throw error
    }, withStatus(status))
    const answer = await clock.until(guard.process(named('a')))
    expect(answer).toMatchObject(settlement)
    if (settlement === failed) expect(answer).toHaveProperty('error', error)
    expect(ran).toBe(runs)
    await guard.close()
  },
)

test.each([
  ['throws', new Error('Connection terminated')],
  ['returns', undefined],
])('a lost connection under a handler that %s is no verdict', async (_, error) => {
  const { asked, guard } = troubled(() => {
    if (error !== undefined) throw error
  }, withStatus('broken'))
  const [settlement] = await guard.processBatch([suspect('a')])
  expect(settlement).toMatchObject({
    ...storeDown,
    error: { cause: { message: error?.message ?? 'the connection was lost' } },
  })
  expect(asked.releases).toMatchObject([{ as: 'no-verdict' }])
  await guard.close()
})

test('if one event was counted too long ago, no event starts: all are counted again', async () => {
  let asks = 0
  const { asked, clock, guard, records } = troubled(
    () => undefined,
    {
      session: (session) => ({
        suspect: async (events, waitMs) => {
          asks += 1
          if (asks === 1) return { kind: 'held' }
          const answer = await session.suspect(events, waitMs)
          if (asks === 2) clock.advance(LATEST_START_MS + 1)
          return answer
        },
      }),
    },
    { transaction: 'batch' },
  )
  const settlements = await guard.processBatch(['a', 'b'].map(suspect))
  expect(settlements).toEqual([processed, processed])
  expect(asked.releases.map(({ as }) => as)).toEqual(['no-verdict', 'no-verdict'])
  expect(records.map(({ attempt }) => attempt)).toEqual([1, 1])
  await guard.close()
})

test('an event with a known state is left out of the run and read at once', async () => {
  const runs: unknown[] = []
  const { asked, guard } = troubled(
    ({ payload }) => void runs.push(payload),
    {},
    { transaction: 'batch' },
  )
  await guard.process(named('a'))
  expect(await guard.processBatch(['a', 'b'].map(named))).toEqual([
    { kind: 'ack', by: 'duplicate' },
    processed,
  ])
  expect(runs).toEqual(['a', 'b'])
  expect(asked.begins).toHaveLength(2)
  await guard.close()
})

test('an event does not overtake an event of its lane with a known state: that event is read first', async () => {
  const inLane = (name: string) => toDelivery(name, { messageId: name, orderingKey: 'lane' })
  const order: unknown[] = []
  const { asked, guard } = troubled(
    ({ payload }) => void order.push(payload),
    {},
    {
      afterCommit: (_, { payload }, { duplicate }) =>
        void (duplicate && order.push(`${payload} again`)),
      transaction: 'batch',
    },
  )
  await guard.process(inLane('a'))
  expect(await guard.processBatch(['a', 'b'].map(inLane))).toEqual([
    { kind: 'ack', by: 'duplicate' },
    processed,
  ])
  expect(order).toEqual(['a', 'a again', 'b'])
  expect(asked.begins.map(({ claim }) => claim.kind !== 'none' && claim.events.length)).toEqual([
    1, 2, 1,
  ])
  await guard.close()
})
