import type { Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { ack } from './fixtures/ack.ts'
import { dispatching as setUp } from './fixtures/dispatching.ts'

const closing: Settlement = { kind: 'abandon', reason: 'closing' }
const lost: Settlement = { kind: 'abandon', reason: 'lease-lost' }

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
