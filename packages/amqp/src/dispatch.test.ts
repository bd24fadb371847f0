import type { Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { ack, dispatching } from './fixtures/dispatching.ts'

test('messages that arrive in one turn go into one call, and so do slots that become free in one turn', async () => {
  const kit = dispatching({ concurrency: 2 })
  kit.take(['a', 'b', 'c', 'd', 'e'])
  expect([kit.batches, kit.dispatcher.inFlight]).toEqual([[], 5])
  await kit.clock.advance(0)
  expect([kit.batches, kit.run()]).toEqual([[2], ['a', 'b']])
  kit.settle('a')
  kit.settle('b')
  await kit.clock.advance(0)
  expect([kit.batches, kit.dispatcher.inFlight]).toEqual([[2, 2], 3])
  expect([kit.known, kit.settled]).toEqual([
    [ack, ack],
    [kit.channel, kit.channel],
  ])
})

// Red when the end of one message frees the ordering key: a later one could overtake another that still runs.
test('messages of an ordering key wait until the last running one of that key has ended', async () => {
  const kit = dispatching({ concurrency: 2 })
  kit.take(['a1', 'a2'])
  await kit.clock.advance(0)
  kit.take(['a3', 'b1'])
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['a1', 'a2', 'b1'])
  kit.settle('a1')
  kit.settle('b1')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['a1', 'a2', 'b1'])
  kit.settle('a2')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['a1', 'a2', 'b1', 'a3'])
})

test('an ordering key occupies one slot, however many messages it has', async () => {
  const kit = dispatching({ concurrency: 2 })
  kit.take(['a1', 'a2', 'b1', 'c1', 'a3'])
  await kit.clock.advance(0)
  // Messages behind one without a slot wait with it.
  expect(kit.run()).toEqual(['a1', 'a2', 'b1'])
  kit.settle('a1')
  await kit.clock.advance(0)
  expect(kit.batches).toEqual([3])
  kit.settle('a2')
  await kit.clock.advance(0)
  expect(kit.run().slice(3)).toEqual(['c1'])
})

// The delay queue takes those that may not be held.
test('half of the prefetch may be held for a retry time, all of it for the store, and nothing during a drain', async () => {
  const kit = dispatching({ concurrency: 4 }, { prefetch: 4 })
  const settled = async (name: string, settlement: Settlement): Promise<number> => {
    kit.settle(name, settlement)
    await kit.clock.advance(0)
    return kit.dispatcher.inFlight
  }
  kit.take(['a', 'b', 'c', 'd'])
  await kit.clock.advance(0)
  expect(await settled('a', kit.later('failed', 1_000))).toBe(4)
  expect(await settled('b', kit.later('failed', 1_000))).toBe(4)
  expect(await settled('c', kit.later('failed', 1_000))).toBe(3)
  expect(await settled('d', kit.later('store-down', 1_000))).toBe(3)
  kit.take(['e', 'f'])
  await kit.clock.advance(0)
  kit.stop.abort()
  expect(await settled('e', kit.later('failed', 1_000))).toBe(4)
  expect(await settled('f', kit.later('store-down', 1_000))).toBe(3)
})

test('held messages do not keep the process alive', async () => {
  const kit = dispatching()
  kit.clock.asked.length = 0
  kit.take(['a'])
  await kit.clock.advance(0)
  kit.settle('a', kit.later('failed', 700))
  await kit.clock.advance(0)
  expect(kit.clock.asked).toEqual([{ delayMs: 700, keepAlive: false }])
})

test('a closed channel drops only its own messages', async () => {
  const kit = dispatching({ concurrency: 2 })
  const other = kit.newChannel()
  kit.take(['a'])
  kit.take(['b'], other)
  await kit.clock.advance(0)
  kit.settle('a', kit.later('failed', 1_000))
  kit.settle('b', kit.later('failed', 1_000))
  await kit.clock.advance(0)
  kit.take(['c', 'd'])
  kit.take(['e', 'f'], other)
  await kit.clock.advance(0)
  expect(kit.dispatcher.inFlight).toBe(6)
  kit.channel.closed()
  kit.dispatcher.drop(kit.channel)
  expect(kit.dispatcher.inFlight).toBe(5)
  kit.settle('c', kit.later('failed', 1_000))
  kit.settle('d')
  await kit.clock.advance(2_000)
  expect(kit.run().slice(2)).toEqual(['c', 'd', 'e', 'f'])
  // One has waited, and waits for a slot now: only its age is watched.
  expect([kit.dispatcher.inFlight, kit.clock.timers]).toEqual([3, 1])
  kit.settle('e')
  await kit.clock.advance(0)
  expect(kit.run().slice(6)).toEqual(['b'])
})

test('a clear returns unstarted and held messages, and no running ones', async () => {
  const kit = dispatching({ concurrency: 2 })
  kit.take(['a', 'b', 'c', 'd'])
  await kit.clock.advance(0)
  kit.settle('a', kit.later('failed', 1_000))
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['a', 'b', 'c'])
  kit.stop.abort()
  kit.dispatcher.clear()
  expect([kit.dispatcher.inFlight, kit.clock.timers]).toEqual([4, 0])
  let isEnded = false
  const ended = kit.dispatcher.ended().then(() => {
    isEnded = true
  })
  await kit.clock.advance(0)
  expect(kit.connection.settled()).toEqual([
    ['nack', 4, false, true],
    ['nack', 1, false, true],
  ])
  expect(kit.dispatcher.inFlight).toBe(2)
  kit.settle('b')
  await kit.clock.advance(0)
  expect(isEnded).toBe(false)
  kit.settle('c')
  await kit.clock.advance(0)
  await ended
  expect([kit.run().length, kit.dispatcher.inFlight]).toEqual([3, 0])
})
