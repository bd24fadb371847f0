import { expect, test } from 'vitest'
import { type Troubles, troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { CommitUnknownError, StoreUnavailableError } from '../model/errors.ts'
import type { InboxTransaction } from '../model/inbox.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })
const processed = { kind: 'ack', by: 'processed' } as const
const batch = { transaction: 'batch' } as const

/** A commit that gets no answer and does not arrive. */
function withoutAnswer(
  transaction: InboxTransaction<undefined>,
): Pick<InboxTransaction<undefined>, 'commit'> {
  const commit = async () => {
    await transaction.rollback()
    return { kind: 'unknown', error: new CommitUnknownError('no answer') } as const
  }
  return { commit }
}

// Red when the parts of a split run independently: a2 commits before a1, whose row must be read again.
test('a part of a split does not overtake an event of its lane whose commit is unknown', async () => {
  const runs: string[] = []
  const { guard } = troubled(
    ({ payload }) => {
      runs.push(String(payload))
      if (runs.length === 2) throw new Error('a2 fails in company')
    },
    // The first transaction holds both events, the second holds only a1.
    { transaction: (transaction, n) => (n === 2 ? withoutAnswer(transaction) : {}) },
    batch,
  )
  const lane = ['a1', 'a2'].map((name) => ({
    ...toDelivery(name, { orderingKey: 'a', messageId: name }),
    redelivered: true,
  }))
  expect(await guard.processBatch(lane)).toEqual(Array(2).fill(processed))
  // Together, alone without an answer, and again before the later event.
  expect(runs).toEqual(['a1', 'a2', 'a1', 'a1', 'a2'])
  await guard.close()
})

test('when a lane stops during a split, its other events are released', async () => {
  const { asked, guard } = troubled(
    ({ payload }) => {
      if (payload === 'a1') throw new Error('not yet')
    },
    {},
    batch,
  )
  const lane = ['a1', 'a2'].map((name) => ({
    ...toDelivery(name, { orderingKey: 'a', messageId: name }),
    redelivered: true,
  }))
  expect(await guard.processBatch(lane)).toMatchObject([
    { kind: 'defer', reason: 'failed' },
    { kind: 'defer', reason: 'not-due' },
  ])
  expect(asked.releases).toMatchObject([{ event: { key: 'a2' }, as: 'given-back' }])
  expect(asked.begins).toHaveLength(2)
  await guard.close()
})

test('an event that is claimed again after an unknown commit runs before later events', async () => {
  const runs: unknown[] = []
  const { guard } = troubled(
    ({ payload }) => {
      runs.push(payload)
      if (payload === 'b') throw new Error('not yet')
    },
    { transaction: (transaction, n) => (n === 2 ? withoutAnswer(transaction) : {}) },
    batch,
  )
  const settlements = await guard.processBatch(['a', 'b', 'c'].map(named))
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack'])
  expect(runs).toEqual(['a', 'b', 'a', 'a', 'b', 'c'])
  await guard.close()
})

test('an event with a known state is read after another event failed, and does not start again', async () => {
  const { asked, guard } = troubled(
    ({ payload }) => {
      if (payload === 'b') throw new Error('not yet')
    },
    {},
    batch,
  )
  await guard.process(named('a'))
  expect(await guard.processBatch(['a', 'b'].map(named))).toMatchObject([
    { kind: 'ack', by: 'duplicate' },
    { kind: 'defer', reason: 'failed' },
  ])
  expect(asked.begins).toHaveLength(2)
  await guard.close()
})

test('a counted event whose row has another owner is not released', async () => {
  const { asked, guard } = troubled(() => undefined, {
    session: () => ({ begin: async () => ({ kind: 'none' }) }),
  })
  const cause = 'running-elsewhere'
  const settlement = { kind: 'defer', reason: 'in-progress', until: 1_005_000, cause }
  expect(await guard.process(suspect('a'))).toEqual(settlement)
  expect(asked.releases).toEqual([])
  await guard.close()
})

test('a failure that cannot be recorded defers the event, and the handler does not run again', async () => {
  const error = new StoreUnavailableError('down')
  let runs = 0
  const { guard } = troubled(
    () => {
      runs += 1
      throw new Error('not yet')
    },
    {
      transaction: (transaction) => ({
        rollbackAndFail: async () => {
          await transaction.rollback()
          throw error
        },
      }),
    },
  )
  const down = { kind: 'defer', reason: 'store-down', error }
  expect(await guard.process(named('a'))).toMatchObject(down)
  expect(runs).toBe(1)
  await guard.close()
})

/** A handler that ends its first transaction itself. */
function ending(how: 'commit' | 'rollback', troubles: Troubles = {}) {
  let open: InboxTransaction<undefined> | undefined
  const judged: unknown[] = []
  const setUp = troubled(
    async ({ attempt }) => {
      if (attempt === 1 && how === 'commit') throw new Error('not yet')
      if (how === 'commit') return void (await open?.commit({ results: new Map(), recovered: [] }))
      await open?.rollback()
      throw new Error('no such order')
    },
    {
      session: (session) => ({
        ...troubles.session?.(session),
        fail: (failures) => {
          judged.push(...failures)
          return session.fail(failures)
        },
      }),
      transaction: (transaction) => {
        open = transaction
        return {}
      },
    },
  )
  return { ...setUp, judged }
}

test('an event whose handler committed by itself is processed at its attempt, and no verdict is recorded', async () => {
  const { clock, guard, judged, logged, records } = ending('commit')
  await guard.process(named('a'))
  clock.advance(750)
  expect(await guard.process(named('a'))).toEqual(processed)
  expect(records.at(-1)).toMatchObject({ attempt: 2 })
  expect(judged).toEqual([])
  expect(logged.map(({ level }) => level)).toEqual(['warn', 'error'])
  await guard.close()
})

test('an event whose handler ended the transaction fails if its row has no answer', async () => {
  const { guard, judged } = ending('rollback', {
    session: () => ({ classify: async () => [] }),
  })
  expect(await guard.process(named('a'))).toMatchObject({
    kind: 'defer',
    reason: 'failed',
    error: { code: 'ONCEWARD_RETRYABLE', cause: { message: 'no such order' } },
  })
  expect(judged).toHaveLength(1)
  await guard.close()
})
