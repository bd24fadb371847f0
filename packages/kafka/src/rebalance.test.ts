import { expect, test } from 'vitest'
import { fetchOf, message, protocolError } from './fixtures/fetch.ts'
import { ack, records, setUp, trusted } from './fixtures/member.ts'

test('K7: a batch that was fetched before the rebalance is refused with the same error object', async () => {
  const kit = await trusted()
  const fetch = fetchOf(records('a'))
  const raw = protocolError('REBALANCE_IN_PROGRESS')
  fetch.broker.heartbeat = Object.assign(new Error('wrapped', { cause: raw }), { retriable: false })
  const callback = kit.call(fetch)
  await kit.clock.advance(0)
  expect(callback.error).toBe(raw)
  expect(kit.handed).toEqual([])
})

test('K9: a batch of a partition that the last join no longer lists is dropped', async () => {
  const kit = await trusted()
  kit.join([1])
  const callback = kit.call(fetchOf(records('a')))
  await kit.clock.advance(0)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect(kit.handed).toEqual([])
})

// Red when only the callback knows its partition: its offset is committed with a generation that is valid (K9).
test('K9: a join that takes a partition away aborts its handlers and moves no offset', async () => {
  const kit = await trusted({ concurrency: 1 })
  const lost = kit.call(fetchOf(records('a', 'b')))
  const kept = kit.call(fetchOf(records('c'), { partition: 1 }))
  await kit.clock.advance(600)
  expect([lost.ended, kept.ended]).toEqual([true, true])
  kit.join([1])
  expect(kit.hooks[0]?.abort?.aborted).toBe(true)
  kit.handed[0]?.settle(ack)
  await kit.clock.advance(5_000)
  expect(lost.fetch.calls).toEqual(['resolve 41'])
  // After a join kafkajs is at the committed offset.
  expect(kept.fetch.calls).toEqual(['resolve 40', 'resolve 40'])
  expect(kit.hooks[1]?.abort?.aborted).toBe(false)
  expect(kit.offsets()).toEqual(['40', '40'])
})

test('K9: a join during the callback moves no offset of a partition that it takes away', async () => {
  const kit = await trusted({ concurrency: 8 })
  const lost = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  kit.settle(40)
  kit.join([1])
  await kit.clock.advance(0)
  expect(lost).toMatchObject({ ended: true, error: undefined })
  kit.settle(41)
  await kit.clock.advance(2_000)
  expect([lost.fetch.calls, kit.told]).toEqual([['resolve 41'], []])
})

// Red when the TypeError of kafkajs, whose positions lack the topic, leaves the callback: the consumer ends (K5).
test('K9: a join during a fetch that takes the topic away ends the batch and moves no offset', async () => {
  const kit = await trusted({ concurrency: 8 })
  const fetch = fetchOf(records('a', 'b'))
  fetch.payload.resolveOffset = () => {
    throw new TypeError("Cannot set properties of undefined (setting '0')")
  }
  const callback = kit.call(fetch)
  await kit.clock.advance(0)
  kit.settle(40)
  kit.settle(41)
  await kit.clock.advance(4_000)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect([fetch.calls, kit.partitionBatches.inFlight]).toEqual([[], 0])
})

test('a member with a new id starts again, because others may have had its partitions', async () => {
  const kit = await trusted({ concurrency: 1 })
  const callback = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(600)
  kit.join([0], 'm-2')
  expect(kit.hooks[0]?.abort?.aborted).toBe(false)
  kit.settle(40)
  await kit.clock.advance(0)
  expect([callback.fetch.calls, kit.offsets()]).toEqual([['resolve 41'], ['40']])
})

test('K14: offsets of handlers that end in time are committed before the member rejoins', async () => {
  const kit = await trusted({ concurrency: 8 })
  const raw = protocolError('REBALANCE_IN_PROGRESS')
  const callback = kit.call(fetchOf(records('a', 'b', 'c')))
  await kit.clock.advance(0)
  kit.settle(40)
  callback.fetch.broker.heartbeat = raw
  await kit.clock.advance(2_000)
  expect(callback.ended).toBe(false)
  kit.settle(41)
  kit.settle(42)
  await kit.clock.advance(0)
  expect(callback.error).toBe(raw)
  expect(callback.fetch.calls.at(-1)).toBe('commit 43')
})

test('K4: a rejoin waits at most five seconds for handlers', async () => {
  const kit = await trusted({ concurrency: 8 })
  const callback = kit.call(fetchOf(records('a')))
  await kit.clock.advance(0)
  callback.fetch.broker.heartbeat = protocolError('REBALANCE_IN_PROGRESS')
  await kit.clock.advance(4_900)
  expect(callback.ended).toBe(false)
  // The first beat, which heard of the rebalance, was after 250 ms.
  await kit.clock.advance(349)
  expect(callback.ended).toBe(false)
  await kit.clock.advance(1)
  expect(callback.error).toMatchObject({ type: 'REBALANCE_IN_PROGRESS' })
})

test('K6: a commit that is refused for its generation makes kafkajs rejoin', async () => {
  const kit = setUp({ concurrency: 1 })
  kit.join([0])
  const raw = protocolError('UNKNOWN_MEMBER_ID')
  const callback = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  callback.fetch.broker.commit = raw
  kit.settle(40)
  await kit.clock.advance(250)
  kit.settle(41)
  await kit.clock.advance(250)
  expect(callback.error).toBe(raw)
})

// Red when the records in hand move the position back to where they stood.
test('K23: a partition whose position was reset drops its records in hand and is read again', async () => {
  const kit = await trusted({ concurrency: 1 })
  const lost = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(600)
  const rewound = kit.partitionBatches.rewind({ topic: 'orders', partition: 0 })
  await kit.clock.advance(0)
  rewound()
  expect([lost.ended, kit.told]).toEqual([true, ['pause 0', 'resume 0']])
  // The running handler may finish.
  expect([kit.hooks[0]?.abort?.aborted, kit.partitionBatches.inFlight]).toEqual([false, 1])
  kit.settle(40)
  await kit.clock.advance(2_000)
  expect(lost.fetch.calls).toEqual(['resolve 41'])
  expect([kit.offsets(), kit.partitionBatches.inFlight]).toEqual([['40'], 0])
  expect(kit.partitionBatches.ownedOf('orders')).toEqual([0, 1])
  const next = kit.call(fetchOf(records('c')))
  await kit.clock.advance(0)
  kit.settle(40)
  await kit.clock.advance(0)
  expect(next.fetch.calls).toEqual(['resolve 40', 'commit 41'])
})

// Red when a partition that was set back is taken for committed at its first record: the group keeps the higher offset
// while that record waits, and the next owner skips it.
test('K11: the offset of a partition that was set back is committed before its first record ends', async () => {
  const kit = await trusted({ concurrency: 8 })
  kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  kit.settle(40)
  await kit.clock.advance(600)
  const again = kit.call(fetchOf([message(3, 'c'), message(4, 'd')]))
  await kit.clock.advance(600)
  expect(kit.offsets()).toEqual(['40', '41', '3', '4'])
  expect(again.fetch.calls).toEqual(['resolve 4', 'commit 3'])
})

// Red when the old consumer continues: two consumers would have the same partition in hand.
test('a new consumer replaces the one before, whose fetches are paused', async () => {
  const kit = await trusted({ concurrency: 1 })
  const old = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  const told: string[] = []
  const eachBatch = kit.partitionBatches.attach({
    pause: ([each]) => void told.push(`pause ${each?.partitions}`),
    resume: ([each]) => void told.push(`resume ${each?.partitions}`),
  })
  await kit.clock.advance(0)
  expect(old).toMatchObject({ ended: true, error: undefined })
  const late = kit.call(fetchOf(records('c'), { partition: 1 }))
  await kit.clock.advance(0)
  expect([late.ended, kit.told]).toEqual([true, ['pause 1']])
  kit.settle(40)
  await kit.clock.advance(0)
  expect(kit.offsets()).toEqual(['40'])
  kit.join([0, 1], 'm-2')
  void eachBatch(fetchOf(records('d')).payload)
  await kit.clock.advance(600)
  expect([kit.offsets(), told]).toEqual([['40', '40'], []])
})

// Red when known offsets are taken for records in hand: after a truncation they are other records, and would be skipped.
test('a partition that is set back drops its records in hand and is read again', async () => {
  const kit = await trusted({ concurrency: 8 })
  const lost = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(600)
  const again = kit.call(fetchOf(records('c', 'd', 'e')))
  await kit.clock.advance(0)
  expect(kit.offsets()).toEqual(['40', '41', '40', '41', '42'])
  for (const { settle } of kit.handed) settle(ack)
  await kit.clock.advance(0)
  expect(lost.fetch.calls).toEqual(['resolve 41'])
  expect(again.fetch.calls).toEqual(['resolve 42', 'commit 43'])
})

// Red when the request of the consumer before counts as under way: a record that runs long costs the member its place, and
// no offset is committed before the fetch is done.
test('a new consumer sends heartbeats and commits although those of the one before are never answered', async () => {
  const kit = await trusted({ concurrency: 8 })
  const hanging = fetchOf(records('a'))
  kit.call(hanging)
  await kit.clock.advance(0)
  hanging.payload.heartbeat = () => new Promise(() => undefined)
  await kit.clock.advance(1_000)
  const told = { pause: () => undefined, resume: () => undefined }
  const eachBatch = kit.partitionBatches.attach(told)
  kit.join([0, 1], 'm-2')
  const next = fetchOf(records('b', 'c'))
  let beats = 0
  next.payload.heartbeat = async () => {
    beats += 1
  }
  void eachBatch(next.payload)
  await kit.clock.advance(1_000)
  expect(beats).toBeGreaterThan(1)
  // Records are trusted now, so only the beats commit.
  for (const offset of [40, 41]) {
    kit.settle(offset)
    await kit.clock.advance(1_000)
  }
  expect(next.calls).toEqual(['resolve 41', 'commit 41', 'commit 42'])
})
