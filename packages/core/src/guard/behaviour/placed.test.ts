import { expect, test } from 'vitest'
import { changed, changedInbox, silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery, GuardEvent } from '../../model/delivery.ts'
import { CommitUnknownError, FatalError, StoreUnavailableError } from '../../model/errors.ts'
import type { PartitionClaim, PartitionFence } from '../../model/fence.ts'
import { portOf } from '../../model/guard-port.ts'
import type { CommitAnswer, Inbox, InboxTransaction } from '../../model/inbox.ts'
import type { LeaseStore } from '../../model/lease-store.ts'
import type { Settlement } from '../../model/settlement.ts'
import { createGuard } from '../guard.ts'

const OF = { home: 'h', log: 't', owner: 'billing' }
const CLAIM: PartitionClaim = {
  ...{ key: 'orders/0', place: 't/0', of: OF, startsAt: 0 },
  name: { log: 'orders', partition: '0' },
}

/** Records of one partition. The effect of a run is its offset. */
function setUp(inbox: Inbox<undefined> = memoryInbox(), leases?: LeaseStore) {
  const shift = createShift()
  const effects: number[] = []
  const claims: string[] = []
  let staged: number[] = []
  let fails: (offset: number) => unknown = () => undefined
  const watched = changedInbox(inbox, (session) => ({
    begin: async (request) => {
      claims.push(request.claim.kind)
      staged = []
      const begun = await session.begin(request)
      if (begun.kind !== 'open') return begun
      const { transaction } = begun
      const commit: InboxTransaction<undefined>['commit'] = async (asked) => {
        const answer = await transaction.commit(asked)
        if (answer.kind === 'committed') effects.push(...staged)
        return answer
      }
      return { ...begun, transaction: changed(transaction, { commit }) }
    },
  }))
  const guard = createGuard(
    {
      consumer: 'billing',
      inbox: watched,
      leases,
      logger: silent,
      transaction: 'batch',
      runtime: shift.runtime,
    },
    async ({ payload }: GuardEvent<unknown>) => {
      const { offset } = payload as { offset: number }
      const error = fails(offset)
      if (error !== undefined) throw error
      staged.push(offset)
      return offset
    },
  )
  return {
    ...{ claims, effects, guard, shift },
    failWith: (how: typeof fails) => {
      fails = how
    },
    claim: async (more: Partial<PartitionClaim> = {}): Promise<PartitionFence> => {
      const claimed = await portOf(guard).claimPartition({ ...CLAIM, ...more })
      if (claimed.kind !== 'claimed') throw new Error(JSON.stringify(claimed))
      return claimed.fence
    },
  }
}

/** Records without anything between them. */
const records = (fence: PartitionFence, offsets: readonly number[], more: Partial<Delivery> = {}) =>
  offsets.map(
    (offset): Delivery => ({
      ...toDelivery({ offset }),
      place: { fence, from: offset, offset },
      ...more,
    }),
  )
const range = (count: number): number[] => Array.from({ length: count }, (_, n) => n)
const by = (settlement: Settlement): string =>
  settlement.kind === 'ack' ? settlement.by : settlement.kind
const ends = (settlements: readonly Settlement[]): readonly string[] => settlements.map(by)

// Red when they are claimed as events with keys are, or remembered by their ids.
test('clean records have no rows and no leases, and are done by their place', async () => {
  let leased = 0
  const leases = memoryLeases()
  const counting: LeaseStore = {
    ...leases,
    claim: (asked) => {
      leased += asked.length
      return leases.claim(asked)
    },
  }
  const { claim, claims, effects, guard } = setUp(memoryInbox(), counting)
  const fence = await claim()
  expect(ends(await guard.processBatch(records(fence, [0, 1, 2])))).toEqual([
    ...['processed', 'processed', 'processed'],
  ])
  expect(ends(await guard.processBatch(records(fence, [1, 2, 3])))).toEqual([
    ...['duplicate', 'duplicate', 'processed'],
  ])
  expect({ effects, claims, leased }).toEqual({
    ...{ effects: [0, 1, 2, 3], claims: ['move', 'move'], leased: 0 },
  })
  const next = await claim()
  expect([fence.isFirst, next.isFirst]).toEqual([true, false])
  expect([next.from, next.isDone(3), next.isDone(4)]).toEqual([4, true, false])
  await guard.close()
})

test('a record that fails waits by its row, and those behind it are done by their place', async () => {
  const { claim, claims, effects, failWith, guard, shift } = setUp()
  const fence = await claim()
  failWith((offset) => (offset === 1 ? new Error('not yet') : undefined))
  const first = await guard.processBatch(records(fence, [0, 1, 2]))
  expect(ends(first)).toEqual(['processed', 'defer', 'processed'])
  fence.settledTo(1)
  await guard.processBatch(records(fence, [3]))
  expect(claims.at(-1)).toBe('move')
  // A new owner starts at the record that waits.
  const after = await claim()
  expect([after.from, after.isDone(0), after.isDone(1), after.isDone(3)]).toEqual([
    ...[1, true, false, true],
  ])
  failWith(() => undefined)
  shift.forward(10_000)
  expect(
    ends(await guard.processBatch(records(after, [1, 2, 3, 4], { redelivered: true }))),
  ).toEqual([...['processed', 'duplicate', 'duplicate', 'processed']])
  expect(effects.toSorted()).toEqual([0, 1, 2, 3, 4])
  await guard.close()
})

test('a dead record stays dead for the next owner', async () => {
  const inbox = memoryInbox()
  const { claim, effects, failWith, guard } = setUp(inbox)
  failWith((offset) => (offset === 0 ? new FatalError('never') : undefined))
  const fence = await claim()
  expect(ends(await guard.processBatch(records(fence, [0, 1])))).toEqual([
    'dead-letter',
    'processed',
  ])
  failWith(() => undefined)
  const after = await claim()
  expect(ends(await guard.processBatch(records(after, [0, 1])))).toEqual([
    'dead-letter',
    'duplicate',
  ])
  expect(effects).toEqual([1])
  expect(inbox.deadLetters().map(({ key }) => key)).toEqual(['t/0/1/0'])
  await guard.close()
})

test('an owner that was replaced commits nothing', async () => {
  const { claim, effects, guard } = setUp()
  const zombie = await claim()
  const fence = await claim()
  expect(ends(await guard.processBatch(records(zombie, [0])))).toEqual(['abandon'])
  expect([zombie.isLost, fence.isLost]).toEqual([true, false])
  expect(ends(await guard.processBatch(records(fence, [0])))).toEqual(['processed'])
  expect(ends(await guard.processBatch(records(zombie, [0, 1])))).toEqual(['abandon', 'abandon'])
  expect(effects).toEqual([0])
  await guard.close()
})

test.each([true, false])('the row answers an unknown COMMIT (arrived: %s)', async (arrives) => {
  let isLost = true
  const { claim, effects, guard } = setUp(
    changedInbox(memoryInbox(), (session) => ({
      begin: async (request) => {
        const begun = await session.begin(request)
        if (begun.kind !== 'open' || !isLost) return begun
        isLost = false
        const { transaction } = begun
        const commit: InboxTransaction<undefined>['commit'] = async (asked) => {
          if (arrives) await transaction.commit(asked)
          else await transaction.rollback()
          return { kind: 'unknown', error: new CommitUnknownError('lost') }
        }
        return { ...begun, transaction: changed(transaction, { commit }) }
      },
    })),
  )
  const fence = await claim()
  const settlements = await guard.processBatch(records(fence, [0, 1]))
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'ack'])
  // The effects of the first COMMIT are not seen here.
  expect(effects).toEqual(arrives ? [] : [0, 1])
  await guard.close()
})

// Red before: one broken connection paused the consumer, and a commit that is not replicated was a store that is down.
test.each([
  [
    { kind: 'rolled-back', error: new StoreUnavailableError('terminated') },
    { kind: 'defer', reason: 'store-down', cause: 'store-error' },
  ],
  [
    { kind: 'not-replicated', error: new CommitUnknownError('not replicated') },
    { kind: 'abandon', reason: 'commit-unknown', cause: 'not-replicated' },
  ],
] as const)('clean records whose COMMIT is answered %j end as rows do', async (answer, ended) => {
  const { claim, guard } = setUp(
    changedInbox(memoryInbox(), (session) => ({
      begin: async (request) => {
        const begun = await session.begin(request)
        if (begun.kind !== 'open') return begun
        const commit = async (): Promise<CommitAnswer> => {
          await begun.transaction.rollback()
          return answer
        }
        return { ...begun, transaction: changed(begun.transaction, { commit }) }
      },
    })),
  )
  const fence = await claim()
  expect(await guard.processBatch(records(fence, [0, 1]))).toMatchObject([ended, ended])
  expect(portOf(guard).availability()).toEqual({ kind: 'available' })
  await guard.close()
})

test('records behind a gap are done, and one that waits for its lane is not passed', async () => {
  const { claim, guard } = setUp()
  const fence = await claim()
  const [first, , third] = records(fence, [0, 1, 2]) as [Delivery, Delivery, Delivery]
  // Record 1 waits elsewhere.
  await guard.processBatch([first, { ...third, place: { fence, from: 2, offset: 2 } }])
  expect([0, 1, 2].map((offset) => fence.isDone(offset))).toEqual([true, false, true])
  // A marker of a transaction is at 3.
  await guard.processBatch(
    records(fence, [4]).map((one) => ({ ...one, place: { fence, from: 3, offset: 4 } })),
  )
  expect((await claim()).from).toBe(1)
  expect(fence.isDone(3)).toBe(true)
  await guard.close()
})

test('records that come lane by lane are done, and none overtakes another of its lane', async () => {
  const { claim, claims, effects, failWith, guard } = setUp()
  const fence = await claim()
  const lanes = records(fence, range(250)).map((one, n) => ({ ...one, orderingKey: `${n % 7}` }))
  const byLane = lanes.toSorted((one, two) => Number(one.orderingKey) - Number(two.orderingKey))
  await guard.processBatch(byLane)
  expect(claims).toEqual(['move', 'move', 'move'])
  expect([effects, fence.from]).toEqual([range(250), 250])
  failWith((offset) => (offset === 253 ? new Error('not yet') : undefined))
  const more = records(
    fence,
    range(250).map((n) => 250 + n),
  )
  const settlements = await guard.processBatch(more.map((one) => ({ ...one, orderingKey: 'one' })))
  expect(ends(settlements).slice(0, 4)).toEqual(['processed', 'processed', 'processed', 'defer'])
  expect(effects.length).toBe(253)
  await guard.close()
})

test('a suspect is counted before it runs, as any event', async () => {
  const { claim, claims, guard } = setUp()
  const fence = await claim()
  await guard.processBatch(records(fence, [0, 1], { redelivered: true }))
  expect(claims).toEqual(['counted'])
  await guard.close()
})

test('a partition that is another one is not claimed, and unknown facts differ from nothing', async () => {
  const { claim, guard } = setUp()
  await claim()
  for (const name of Object.keys(OF)) {
    const other = { ...CLAIM, of: { ...OF, [name]: 'other' } }
    expect(await portOf(guard).claimPartition(other)).toEqual({
      ...{ kind: 'other', stored: { of: OF, next: 0 } },
    })
  }
  const { from, isFirst } = await claim({ of: { ...OF, home: '' } })
  expect([from, isFirst]).toEqual([0, false])
  const elsewhere = { ...CLAIM, of: { ...OF, home: 'other' } }
  expect((await portOf(guard).claimPartition(elsewhere)).kind).toBe('other')
  await guard.close()
})

test('an inbox without offsets claims no partition', async () => {
  const { guard } = setUp(changedInbox(memoryInbox(), () => ({ offsets: undefined })))
  expect(await portOf(guard).claimPartition(CLAIM)).toEqual({ kind: 'no-offsets' })
  await guard.close()
})

// Red when only transactions of clean records move the partition on: the offsets of what came since would be missed.
test('what is settled without a clean record is stored, in a quiet partition', async () => {
  const { claim, claims, failWith, guard, shift } = setUp()
  const fence = await claim()
  failWith((offset) => (offset === 1 ? new Error('not yet') : undefined))
  await guard.processBatch(records(fence, [0, 1, 2]))
  failWith(() => undefined)
  shift.forward(10_000)
  // The settlement of 1 is not known yet.
  fence.settledTo(1)
  await fence.store()
  expect((await claim()).from).toBe(1)

  const after = await claim()
  expect(ends(await guard.processBatch(records(after, [1], { redelivered: true })))).toEqual([
    'processed',
  ])
  // Behind the records, the partition has a mark at 3.
  after.settledTo(4)
  const before = claims.length
  await after.storeIfQuiet()
  const next = await claim()
  expect([next.from, next.isDone(3), claims.length - before]).toEqual([4, true, 0])
  await guard.close()
})

test('a partition that moves on is not quiet, and one that another owner has is not moved', async () => {
  const { claim, guard } = setUp()
  const fence = await claim()
  await guard.processBatch(records(fence, [0]))
  fence.settledTo(2)
  await fence.storeIfQuiet()
  const next = await claim()
  expect(next.from).toBe(1)
  await fence.storeIfQuiet()
  expect([fence.isLost, (await claim()).from]).toEqual([true, 1])
  await guard.close()
})
