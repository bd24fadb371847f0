import type { Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { dispatching as setUp } from './fixtures/dispatching.ts'
import { ack } from './fixtures/member.ts'

const closing: Settlement = { kind: 'abandon', reason: 'closing' }
const lost: Settlement = { kind: 'abandon', reason: 'lease-lost' }

test('a free slot is filled while the other handlers run', async () => {
  const kit = setUp({ concurrency: 2 })
  kit.fetch(0, 'a', 'b', 'c', 'd', 'e')
  kit.dispatcher.pump()
  kit.settle('0/41')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['0/40', '0/41', '0/42'])
  kit.settle('0/40')
  kit.settle('0/42')
  await kit.clock.advance(0)
  // One call of the guard fills both slots.
  expect(kit.batches).toEqual([2, 1, 2])
})

// Red when the turn moves with each check for work: with two partitions the same one always ran.
test('partitions take turns', async () => {
  const kit = setUp({ concurrency: 1 })
  for (const partition of [0, 1, 2]) kit.fetch(partition, 'a', 'b')
  kit.dispatcher.pump()
  for (let round = 0; round < 5; round += 1) {
    await kit.clock.advance(2_000)
    kit.settle(kit.run().at(-1) ?? '')
    await kit.clock.advance(0)
  }
  expect(kit.run()).toEqual(['0/40', '1/40', '2/40', '0/41', '1/41', '2/41'])
})

// Red when the guard is handed records that its slots cannot run: they wait there while others could take their partition.
test('no more records are handed over than can run, also if handlers are quick', async () => {
  const kit = setUp({ concurrency: 2 }, { batch: { size: 10 } })
  kit.fetch(0, ...Array.from({ length: 40 }, (_, index) => String(index)))
  kit.dispatcher.pump()
  for (let offset = 40; offset < 46; offset += 1) {
    kit.settle(`0/${offset}`)
    await kit.clock.advance(0)
  }
  expect(kit.batches).toEqual([2, 1, 1, 1, 1, 1, 1])
})

// Red when such a call has as many records as slots are free: the slots are idle until its last record has ended.
test('if the guard finds the lanes itself, each partition has one call, as large as a batch', async () => {
  const kit = setUp({ concurrency: 2, lanesAreUsers: true }, { batch: { size: 5 } })
  for (const partition of [0, 1, 2]) kit.fetch(partition, 'a', 'b', 'c', 'd', 'e', 'f')
  kit.dispatcher.pump()
  expect(kit.batches).toEqual([5, 5])
})

test('a batch guard has as many concurrent calls as slots', async () => {
  const kit = setUp({ transaction: 'batch', concurrency: 2 }, { batch: { size: 2 } })
  kit.fetch(0, 'a', 'b', 'c', 'd', 'e', 'f', 'g')
  kit.dispatcher.pump()
  expect(kit.batches).toEqual([2, 2])
  for (const offset of [40, 41]) kit.settle(`0/${offset}`)
  await kit.clock.advance(0)
  expect(kit.batches).toEqual([2, 2, 2])
})

test('nothing is handed over while a rebalance is pending', () => {
  const kit = setUp()
  kit.fetch(0, 'a')
  kit.world.isHeld = true
  kit.dispatcher.pump()
  expect(kit.run()).toEqual([])
  kit.world.isHeld = false
  kit.dispatcher.pump()
  expect(kit.run()).toEqual(['0/40'])
})

// Red when the next records start at once: after a crash they would be suspects too.
test('a suspect record starts only after the offset of those before it is committed', async () => {
  const kit = setUp({ concurrency: 2 })
  const committed = Promise.withResolvers<boolean>()
  kit.world.isSuspect = true
  kit.world.commit = () => committed.promise
  kit.fetch(0, 'a', 'b', 'c')
  kit.dispatcher.pump()
  expect(kit.handed.map(({ delivery }) => delivery.redelivered)).toEqual([true, true])
  await kit.clock.advance(2_000)
  kit.settle('0/40')
  kit.settle('0/41')
  await kit.clock.advance(0)
  kit.dispatcher.pump()
  expect([kit.commits.length, kit.run()]).toEqual([1, ['0/40', '0/41']])
  committed.resolve(true)
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['0/40', '0/41', '0/42'])
  // The end of a batch is committed by the callback for its end.
  kit.settle('0/42')
  await kit.clock.advance(0)
  expect(kit.commits).toHaveLength(1)
})

test('a batch that was told to stop starts nothing more, while its handlers finish', async () => {
  const kit = setUp({ concurrency: 2 })
  const batch = kit.fetch(0, 'a', 'b', 'c')
  kit.dispatcher.pump()
  batch.stop.abort()
  kit.settle('0/40')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['0/40', '0/41'])
  expect([batch.isOver, kit.hooks[0]?.stop?.aborted, kit.hooks[0]?.abort?.aborted]).toEqual([
    false,
    true,
    false,
  ])
})

test('an unstarted record is not handed over again after the guard has closed', async () => {
  const kit = setUp()
  const batch = kit.fetch(0, 'a')
  kit.dispatcher.pump()
  kit.settle('0/40', closing)
  await kit.clock.advance(60_000)
  expect([kit.run(), batch.progress.running, kit.clock.timers]).toEqual([['0/40'], 0, 0])
})

// Red when a rebalance that stops one batch is taken for a guard that was closed: the consumer would end.
test('all results are reported, except abandonments that a stop caused', async () => {
  const kit = setUp({ concurrency: 5 })
  const failed: Settlement = { kind: 'defer', reason: 'failed', until: kit.until(1_000) }
  const going = kit.fetch(0, 'a', 'b')
  const stopped = kit.fetch(1, 'a', 'b', 'c')
  kit.dispatcher.pump()
  stopped.stop.abort()
  const settlements = {
    '0/40': ack,
    '0/41': closing,
    '1/40': closing,
    '1/41': lost,
    '1/42': failed,
  }
  for (const [position, settlement] of Object.entries(settlements)) kit.settle(position, settlement)
  await kit.clock.advance(0)
  expect(going.progress.lowest?.record.message.offset).toBe('41')
  expect(kit.known).toEqual([ack, closing, lost, failed])
})

test('the dispatcher wakes up for the record that is due first', async () => {
  const kit = setUp({ concurrency: 3 })
  for (const partition of [0, 1, 2]) kit.fetch(partition, 'a')
  kit.dispatcher.pump()
  for (const [partition, afterMs] of [5_000, 500, 3_000].entries()) {
    const settlement = { kind: 'defer', reason: 'failed', until: kit.until(afterMs) } as const
    kit.settle(`${partition}/40`, settlement)
    await kit.clock.advance(0)
  }
  const positions = ['0/40', '1/40', '2/40']
  await kit.clock.advance(499)
  expect(kit.run()).toEqual(positions)
  await kit.clock.advance(2)
  expect(kit.run()).toEqual([...positions, '1/40'])
  kit.settle('1/40')
  await kit.clock.advance(2_500)
  kit.settle('2/40')
  await kit.clock.advance(2_000)
  kit.settle('0/40')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual([...positions, '1/40', '2/40', '0/40'])
  expect(kit.clock.timers).toBe(0)
})

// Red when the dispatcher looks for the record every millisecond while the slow one runs.
test('a record that is due while every slot is busy waits for a slot, without a timer', async () => {
  const kit = setUp({ concurrency: 1 })
  kit.fetch(0, 'slow')
  kit.fetch(1, 'again')
  kit.dispatcher.pump()
  const [first, second] = ['0/40', '1/40']
  kit.settle(first, { kind: 'defer', reason: 'failed', until: kit.until(500) } as const)
  await kit.clock.advance(501)
  expect(kit.run()).toEqual([first, second])
  expect(kit.clock.timers).toBe(0)
  kit.settle(second)
  await kit.clock.advance(0)
  expect(kit.run()).toEqual([first, second, first])
})

test('one record probes a store that is down, and no other until its result is known', async () => {
  const kit = setUp({ concurrency: 4 })
  const error = new Error('ECONNREFUSED')
  kit.state.availability = { kind: 'down', retryAt: kit.until(0), error }
  kit.fetch(0, 'a', 'b')
  kit.fetch(1, 'a')
  kit.dispatcher.pump()
  expect(kit.run()).toEqual(['0/40'])
  kit.dispatcher.pump()
  await kit.clock.advance(5_000)
  expect(kit.run()).toEqual(['0/40'])
  kit.state.availability = { kind: 'down', retryAt: kit.until(3_000), error }
  kit.settle('0/40', { kind: 'defer', reason: 'store-down', until: kit.until(3_000) })
  await kit.clock.advance(2_990)
  expect(kit.run()).toHaveLength(1)
  await kit.clock.advance(20)
  expect(kit.run()).toEqual(['0/40', '1/40'])
  kit.state.availability = { kind: 'available' }
  kit.settle('1/40')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['0/40', '1/40', '0/40', '0/41'])
})

test('the dispatcher looks for work when a record is due, and once a second while the store is down', async () => {
  const kit = setUp()
  let looks = 0
  const { availability } = kit.port
  Object.assign(kit.port, {
    availability: () => {
      looks += 1
      return availability()
    },
  })
  kit.fetch(0, 'a')
  kit.dispatcher.pump()
  kit.settle('0/40', { kind: 'defer', reason: 'failed', until: kit.until(10_000) })
  await kit.clock.advance(9_999)
  // At the start, and after the call.
  expect([looks, kit.run().length]).toEqual([2, 1])
  const error = new Error('ECONNREFUSED')
  kit.state.availability = { kind: 'down', retryAt: kit.until(60_000), error }
  looks = 0
  await kit.clock.advance(10_000)
  expect(looks).toBe(10)
})

test('the dispatcher notices within a second that the store is back, and earlier if a record is due', async () => {
  const kit = setUp({ concurrency: 2 })
  const availability = { kind: 'available' } as const
  const goDown = (): void => {
    const error = new Error('ECONNREFUSED')
    kit.state.availability = { kind: 'down', retryAt: kit.until(60_000), error }
    kit.dispatcher.pump()
  }
  goDown()
  kit.fetch(0, 'a')
  await kit.clock.advance(500)
  kit.state.availability = availability
  await kit.clock.advance(501)
  expect(kit.run()).toEqual(['0/40'])
  kit.settle('0/40', { kind: 'defer', reason: 'failed', until: kit.until(100) })
  await kit.clock.advance(50)
  goDown()
  kit.state.availability = availability
  await kit.clock.advance(51)
  expect(kit.run()).toEqual(['0/40', '0/40'])
})

// Red when each run is a first delivery: a record without an event key has no other count, and would be tried for ever.
test('a record whose run failed counts its deliveries, and no others', async () => {
  const kit = setUp()
  kit.fetch(0, null)
  kit.dispatcher.pump()
  const counts: unknown[] = []
  const again = async (settlement: Settlement): Promise<void> => {
    kit.settle('0/40', settlement)
    await kit.clock.advance(10_000)
    const { deliveryCount, redelivered } = kit.handed.at(-1)?.delivery ?? {}
    counts.push([deliveryCount, redelivered])
  }
  const defer = (reason: 'failed' | 'store-down' | 'not-due'): Settlement => ({
    ...{ kind: 'defer', reason, until: kit.until(500) },
  })
  await again(defer('not-due'))
  await again(defer('failed'))
  await again(defer('store-down'))
  await again(lost)
  await again(defer('failed'))
  expect(counts).toEqual([
    [undefined, true],
    [2, true],
    [2, true],
    [2, true],
    [3, true],
  ])
})

// Red when it keeps the process alive: a handler that outlives the drain and then fails would hold it for up to `maxMs`.
test('a record that waits for a time lets the process end', async () => {
  const kit = setUp()
  kit.fetch(0, 'a')
  kit.dispatcher.pump()
  kit.dispatcher.close()
  kit.settle('0/40', { kind: 'defer', reason: 'failed', until: kit.until(300_000) })
  await kit.clock.advance(0)
  expect(kit.clock.asked).toEqual([{ delayMs: 300_001, keepAlive: false }])
})
