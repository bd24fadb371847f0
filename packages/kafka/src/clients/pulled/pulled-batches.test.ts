import type { GuardSettings } from '@onceward/core/adapter'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { Dispatcher } from '../../dispatch.ts'
import { ack } from '../../fixtures/ack.ts'
import { message } from '../../fixtures/fetch.ts'
import { resolveConsumerSettings } from '../../options.ts'
import type { Fetched, Position, PulledConsumer } from '../port.ts'
import type { Start } from './pulled-batch.ts'
import { PulledBatches } from './pulled-batches.ts'

/** A member whose client the test plays. */
function pulling(guard: Partial<GuardSettings> = {}) {
  const made = handMadeGuard(guard)
  const committed: string[] = []
  const told: string[] = []
  const world = { group: undefined as bigint | undefined, commit: async () => undefined as unknown }
  const consumer: Pick<PulledConsumer, 'commit' | 'committed' | 'pause' | 'resume'> = {
    commit: async (positions: readonly Position[]) => {
      await world.commit()
      for (const { offset, partition } of positions) committed.push(`${partition}:${offset}`)
    },
    committed: async () =>
      world.group === undefined ? [] : [{ topic: 'orders', partition: 0, offset: world.group }],
    pause: (partitions) => void told.push(`pause ${partitions[0]?.partition}`),
    resume: (partitions) => void told.push(`resume ${partitions[0]?.partition}`),
  }
  const settings = resolveConsumerSettings({ topics: ['orders'] }, made.port.settings)
  const batches = new PulledBatches({
    ...{ port: made.port, settings, onFenced: () => told.push('fenced') },
    onRunnable: () => dispatcher.pump(),
  })
  const dispatcher: Dispatcher = new Dispatcher({
    ...{ port: made.port, settings, batches, onKnown: () => undefined },
    signals: { stop: new AbortController().signal, abort: new AbortController().signal },
  })
  batches.attach(consumer as PulledConsumer)
  const start = (offset: bigint) =>
    batches.assigned([{ topic: 'orders', partition: 0, offset, isCommitted: true }])
  const give = (first: number, count: number) => batches.give([fetchedOf(first, count)])
  const ran = () => made.handed.map(({ delivery }) => Number(delivery.source.position?.slice(2)))
  const settle = (offset: number) =>
    made.handed.findLast(({ delivery }) => delivery.source.position === `0/${offset}`)?.settle(ack)
  const pass = (ms: number) => made.clock.advance(ms)
  return { ...made, batches, committed, told, world, start, give, ran, settle, pass }
}

const fetchedOf = (first: number, count: number): Fetched => ({
  ...{ topic: 'orders', partition: 0, next: BigInt(first + count) },
  records: Array.from({ length: count }, (_, index) => ({
    ...{ topic: 'orders', partition: 0 },
    message: message(first + index, `k${index}`),
  })),
})

const ORDERS = [{ topic: 'orders', partition: 0 }]

/** One whose records are trusted: the first one is settled, and the time of suspicion is over. */
async function trusted() {
  const kit = pulling({ concurrency: 16 })
  kit.start(40n)
  kit.give(40, 1)
  await kit.pass(0)
  kit.settle(40)
  await kit.pass(2_000)
  return kit
}

// Red when the offset of the last settled record is committed.
test('the offset stops at the first record that is not settled', async () => {
  const { committed, give, pass, settle } = await trusted()
  give(41, 3)
  await pass(0)
  for (const offset of [43, 41]) settle(offset)
  await pass(300)
  expect(committed).toEqual(['0:41', '0:42'])
  settle(42)
  await pass(300)
  expect(committed.at(-1)).toBe('0:44')
})

// Red with a client that reads a partition again from the committed offset after a join.
test('records that are given again are left out', async () => {
  const { give, pass, ran, settle } = await trusted()
  give(41, 2)
  give(41, 4)
  await pass(0)
  for (const offset of [41, 42]) settle(offset)
  await pass(0)
  expect(ran()).toEqual([40, 41, 42, 43, 44])
})

test('a partition that comes back is read from its new start', async () => {
  const { batches, give, pass, ran, start } = await trusted()
  give(41, 1)
  await pass(0)
  batches.lost(ORDERS)
  start(41n)
  give(41, 1)
  await pass(0)
  expect(ran()).toEqual([40, 41, 41])
})

// Red when a record is known by another place than its own, or what is done runs again.
test('with offsets as identity each record has its place, and those that are done are left out', async () => {
  const { batches, handed, pass, settle, told } = pulling()
  const fence = { from: 40, isLost: false, isDone: (offset: number) => offset === 42, low: 0 }
  const settledTo = (offset: number): void => {
    fence.low = offset
  }
  const stored: string[] = []
  const claimed = Object.assign(fence, {
    ...{ settledTo, isFirst: false, keyOf: () => '' as never },
    store: async () => void stored.push(`now: ${fence.low}`),
    storeIfQuiet: async () => void stored.push(`if quiet: ${fence.low}`),
  })
  batches.assigned([{ ...ORDERS[0], offset: 40n, isCommitted: true, fence: claimed } as Start])
  const [plain, gap] = [fetchedOf(40, 2), fetchedOf(42, 6)]
  const compacted = { ...gap, records: gap.records.toSpliced(1, 3) }
  const [batch] = batches.owned
  expect([plain, compacted].map((each) => batch?.isContinuedBy(each))).toEqual([true, false])
  batches.give([plain, compacted])
  for (const offset of [40, 41, 46]) {
    await pass(0)
    settle(offset)
  }
  await pass(0)
  const places = handed.map(({ delivery: { place } }) => [place?.from, place?.offset])
  expect(places.slice(0, 3)).toEqual([
    [40, 40],
    [41, 41],
    [43, 46],
  ])
  expect([fence.low, told]).toEqual([47, []])
  // Behind the last record there is a mark, which nothing runs for.
  settle(47)
  await pass(0)
  batches.give([{ ...gap, records: [], next: 49n }])
  await pass(300)
  expect([stored.at(-1), told]).toEqual(['if quiet: 49', []])
  batches.give([fetchedOf(49, 1)])
  await pass(0)
  fence.isLost = true
  settle(49)
  await pass(0)
  expect(told).toEqual(['fenced'])
})

// Red when a refusal drops what was fetched before: its records are in the log no more.
test('of a partition that is refused what is in hand runs, and nothing more is taken', async () => {
  const { batches, give, pass, ran, settle, told } = await trusted()
  give(41, 2)
  batches.refuse(ORDERS)
  give(43, 2)
  expect(batches.isIdle({ topic: 'orders', partition: 0 })).toBe(false)
  for (const offset of [41, 42]) {
    await pass(0)
    settle(offset)
  }
  await pass(300)
  expect([ran(), told]).toEqual([[40, 41, 42], ['pause 0']])
  expect(batches.isIdle({ topic: 'orders', partition: 0 })).toBe(true)
})

test('a partition that goes waits for its running record, and is committed before it goes', async () => {
  const { batches, committed, give, pass, settle } = await trusted()
  give(41, 2)
  await pass(0)
  settle(41)
  let isGone = false
  void batches.revoked(ORDERS).then(() => {
    isGone = true
  })
  await pass(1_000)
  expect(isGone).toBe(false)
  settle(42)
  await pass(0)
  expect([isGone, committed.at(-1), batches.owned]).toEqual([true, '0:43', []])
})

test('a partition that goes waits five seconds at most', async () => {
  const { batches, committed, give, pass } = await trusted()
  give(41, 1)
  await pass(0)
  const [batch] = batches.open
  void batches.revoked(ORDERS)
  await pass(5_100)
  expect([committed.at(-1), batches.owned]).toEqual(['0:41', []])
  expect(batch?.abort.signal.aborted).toBe(true)
})

// Red when the answer of the client is trusted: the next member would start far behind.
test('a commit that was confirmed and not carried out is sent again', async () => {
  const { committed, logged, pass, world } = await trusted()
  world.group = 7n
  await pass(11_000)
  expect(committed).toEqual(['0:41', '0:41'])
  expect(JSON.stringify(logged)).toContain('the group has a lower offset than was committed')
})

test('a partition with a thousand records is paused, and resumed when few are left', async () => {
  const { give, pass, settle, told } = await trusted()
  give(41, 1_000)
  expect(told).toEqual(['pause 0'])
  for (let offset = 41; offset < 641; offset += 1) {
    await pass(0)
    settle(offset)
  }
  await pass(300)
  expect(told).toEqual(['pause 0', 'resume 0'])
})

test('a drain ends when what runs has ended and was committed', async () => {
  const { batches, committed, give, pass, settle } = await trusted()
  give(41, 1)
  await pass(0)
  batches.clear()
  let hasEnded = false
  void batches.ended().then(() => {
    hasEnded = true
  })
  await pass(0)
  expect(hasEnded).toBe(false)
  settle(41)
  await pass(0)
  expect([hasEnded, committed.at(-1)]).toEqual([true, '0:42'])
})
