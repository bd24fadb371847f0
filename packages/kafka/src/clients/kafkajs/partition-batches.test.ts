import type { Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { fetchOf, message } from '../../fixtures/fetch.ts'
import { ack, reading, records, setUp, stopped, trusted } from '../../fixtures/member.ts'

test('quick records are settled and committed while kafkajs waits', async () => {
  const kit = await trusted({ concurrency: 8 })
  kit.state.decide = () => ack
  const callback = kit.call(fetchOf(records('a', 'b', 'c')))
  await kit.clock.advance(10)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect(callback.fetch.calls).toEqual(['resolve 42', 'commit 43'])
  expect(kit.told).toEqual([])
  expect(kit.partitionBatches.inFlight).toBe(0)
})

// Red when the callback waits for all its records: kafkajs fetches nothing from the other partitions meanwhile.
test('K2: kafkajs does not wait for a slow record, whose partition is fetched on from behind it', async () => {
  const kit = await trusted({ concurrency: 8 })
  const callback = kit.call(fetchOf(records('a', 'b', 'c')))
  await kit.clock.advance(0)
  kit.settle(40)
  kit.settle(42)
  await kit.clock.advance(600)
  expect(callback.ended).toBe(true)
  expect(callback.fetch.calls).toEqual(['resolve 42', 'commit 41'])
  const next = kit.call(fetchOf([message(43, 'd'), message(44, 'b')]))
  await kit.clock.advance(0)
  expect([kit.offsets(), next.fetch.calls]).toEqual([['40', '41', '42', '43'], ['resolve 44']])
  kit.settle(43)
  kit.settle(41)
  await kit.clock.advance(0)
  kit.settle(44)
  await kit.clock.advance(0)
  expect([kit.offsets().at(-1), next.fetch.calls.at(-1)]).toEqual(['44', 'commit 45'])
  expect([kit.told, kit.partitionBatches.open]).toEqual([[], []])
})

// Red when a deferral resolves its offset, as pause() and return do in eachMessage.
test('K1: the offset never passes a deferred record, and the record runs again when it is due', async () => {
  const kit = await trusted({ concurrency: 8 })
  const callback = kit.call(fetchOf(records('a', 'a', 'b')))
  await kit.clock.advance(0)
  const until = (kit.clock.nowMs + 5_000) as Extract<Settlement, { kind: 'defer' }>['until']
  kit.settle(40, { kind: 'defer', reason: 'failed', until })
  kit.settle(41, { kind: 'defer', reason: 'failed', until })
  kit.settle(42)
  await kit.clock.advance(4_900)
  expect(kit.offsets()).toEqual(['40', '41', '42'])
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect(callback.fetch.calls).toEqual(['resolve 42'])
  await kit.clock.advance(200)
  expect(kit.offsets()).toEqual(['40', '41', '42', '40', '41'])
  expect(kit.handed[3]?.delivery.redelivered).toBe(true)
  kit.settle(40)
  kit.settle(41)
  await kit.clock.advance(0)
  expect(callback.fetch.calls).toEqual(['resolve 42', 'commit 43'])
})

// Red when nothing starts them: they wait until the long one has ended, or until kafkajs brings others.
test('a record that runs long holds back others of its partition only as long as those are suspects', async () => {
  const kit = setUp({ concurrency: 2 })
  kit.join([0])
  kit.call(fetchOf(records('long', 'b', 'c', 'd')))
  await kit.clock.advance(0)
  kit.settle(41)
  await kit.clock.advance(400)
  expect(kit.offsets()).toEqual(['40', '41'])
  await kit.clock.advance(200)
  expect(kit.offsets()).toEqual(['40', '41', '42'])
  kit.settle(42)
  await kit.clock.advance(0)
  expect(kit.handed.map(({ delivery }) => delivery.redelivered)).toEqual([
    true,
    true,
    undefined,
    undefined,
  ])
})

test('records after an assignment are suspects, and the offset is committed before the next ones start', async () => {
  const kit = setUp({ concurrency: 2 })
  kit.join([0])
  const callback = kit.call(fetchOf(records('a', 'b', 'c', 'd')))
  await kit.clock.advance(0)
  expect(kit.handed.map(({ delivery }) => delivery.redelivered)).toEqual([true, true])
  kit.settle(40)
  await kit.clock.advance(0)
  expect(kit.offsets()).toEqual(['40', '41'])
  kit.settle(41)
  await kit.clock.advance(0)
  expect(callback.fetch.calls).toEqual(['resolve 43', 'commit 42'])
  expect(kit.offsets()).toEqual(['40', '41', '42', '43'])
  await kit.clock.advance(1_001)
  kit.settle(42)
  kit.settle(43)
  await kit.clock.advance(0)
  const next = kit.call(fetchOf([message(44, 'a')]))
  await kit.clock.advance(0)
  expect(kit.handed.at(-1)?.delivery.redelivered).toBeUndefined()
  kit.settle(44)
  await kit.clock.advance(0)
  expect(next.ended).toBe(true)
})

test.each([
  ['a TypeError', new TypeError('no')],
  ['retriable: false', Object.assign(new Error('no'), { retriable: false })],
  ['undefined', undefined],
])('K5, K13: %s thrown by kafkajs never leaves the callback', async (_what, thrown) => {
  const kit = await trusted({ concurrency: 8 })
  const fetch = fetchOf(records('a', 'b'))
  fetch.payload.heartbeat = () => Promise.reject(thrown)
  fetch.payload.commitOffsetsIfNecessary = () => Promise.reject(thrown)
  const callback = kit.call(fetch)
  await kit.clock.advance(0)
  kit.settle(40)
  await kit.clock.advance(600)
  kit.settle(41)
  await kit.clock.advance(12_000)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect(kit.partitionBatches.settleFailures).toBeGreaterThan(0)
})

// Red when the batch is closed nevertheless: its offset is not committed until there are other records.
test('an offset that could not be committed is committed later, and the broker is spared meanwhile', async () => {
  const kit = await trusted({ concurrency: 8 })
  kit.state.decide = () => ack
  const fetch = fetchOf(records('a', 'b', 'c'))
  fetch.broker.commit = new Error('connect ECONNREFUSED')
  const callback = kit.call(fetch)
  await kit.clock.advance(9_900)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect(fetch.calls.filter((call) => call.startsWith('commit'))).toEqual(['commit 43'])
  fetch.broker.commit = undefined
  await kit.clock.advance(1_000)
  expect(fetch.calls.filter((call) => call.startsWith('commit'))).toEqual([
    'commit 43',
    'commit 43',
  ])
  expect(kit.partitionBatches.inFlight).toBe(0)
})

test('health counts settlements that did not reach the broker', async () => {
  const kit = await trusted({ concurrency: 8 })
  kit.state.decide = () => ack
  kit.call(fetchOf(records('a')))
  await kit.clock.advance(10)
  expect(kit.partitionBatches.settleFailures).toBe(0)
  const fetch = fetchOf(records('a'), { partition: 1 })
  fetch.broker.commit = new Error('connect ECONNREFUSED')
  kit.call(fetch)
  await kit.clock.advance(10)
  expect(kit.partitionBatches.settleFailures).toBe(1)
})

test('one record probes a store that is down, the others wait, and kafkajs continues', async () => {
  const kit = await trusted({ concurrency: 8 })
  const callback = kit.call(fetchOf(records('a', 'b', 'c')))
  await kit.clock.advance(0)
  const down = (ms: number) => {
    const retryAt = (kit.clock.nowMs + ms) as Extract<Settlement, { kind: 'defer' }>['until']
    kit.state.availability = { kind: 'down', retryAt, error: new Error('ECONNREFUSED') }
    return { kind: 'defer', reason: 'store-down', until: retryAt } as const
  }
  const settlement = down(3_000)
  for (const offset of [40, 41, 42]) kit.settle(offset, settlement)
  await kit.clock.advance(2_900)
  expect(kit.offsets()).toHaveLength(3)
  expect(callback.ended).toBe(true)
  await kit.clock.advance(2_000)
  expect(kit.offsets()).toHaveLength(4)
  kit.state.availability = { kind: 'available' }
  kit.settle(40)
  await kit.clock.advance(0)
  expect(kit.offsets()).toHaveLength(6)
  kit.settle(41)
  kit.settle(42)
  await kit.clock.advance(0)
  expect(callback.fetch.calls).toEqual(['resolve 42', 'commit 43'])
})

test('a stop finishes and commits running records, and leaves the others unread', async () => {
  const kit = await trusted({ concurrency: 1 })
  const callback = kit.call(fetchOf(records('a', 'b', 'c')))
  await kit.clock.advance(0)
  let isIdle = false
  void stopped(kit).then(() => {
    isIdle = true
  })
  expect(kit.hooks[0]?.stop?.aborted).toBe(true)
  await kit.clock.advance(3_000)
  expect(isIdle).toBe(false)
  kit.settle(40)
  await kit.clock.advance(0)
  expect([isIdle, kit.offsets(), kit.told]).toEqual([true, ['40'], ['pause 0']])
  expect(callback.fetch.calls).toEqual(['resolve 42', 'commit 41'])
  const late = kit.call(fetchOf([message(41, 'b')], { partition: 1 }))
  await kit.clock.advance(0)
  expect([late.ended, kit.handed.length, kit.told.at(-1)]).toEqual([true, 1, 'pause 1'])
})

test('K22: a consumer that its user stops keeps callback and heartbeats until the handlers have ended', async () => {
  const kit = await trusted({ concurrency: 1 })
  const fetch = fetchOf(records('a', 'b'))
  let beats = 0
  fetch.payload.heartbeat = async () => {
    beats += 1
  }
  const callback = kit.call(fetch)
  await kit.clock.advance(0)
  fetch.broker.isRunning = false
  await kit.clock.advance(9_000)
  expect([callback.ended, beats > 30, kit.offsets()]).toEqual([false, true, ['40']])
  kit.settle(40)
  await kit.clock.advance(0)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect(fetch.calls).toEqual(['resolve 41', 'commit 41'])
})

test('control records behind the last record are passed with it', async () => {
  const kit = await trusted({ concurrency: 1 })
  const callback = kit.call(fetchOf(records('a'), { lastOffset: '42' }))
  await kit.clock.advance(600)
  kit.settle(40)
  await kit.clock.advance(0)
  expect(callback.fetch.calls).toEqual(['resolve 42', 'commit 43'])
})

test('a batch guard gets full batches, and a lane is never in two of them', async () => {
  const kit = await reading({ transaction: 'batch', concurrency: 2 }, { batch: { size: 3 } })
  kit.call(fetchOf(records('a', 'b', 'c', 'a', 'd', 'e', 'f')))
  await kit.clock.advance(0)
  expect([kit.batches, kit.offsets()]).toEqual([
    [1, 3, 3],
    ['39', '40', '41', '42', '44', '45', '46'],
  ])
  for (const offset of [40, 41, 42]) kit.settle(offset)
  await kit.clock.advance(0)
  expect(kit.offsets().at(-1)).toBe('43')
})

test('kafkajs waits when the limit of batches in hand is reached', async () => {
  const kit = await trusted({ concurrency: 8 }, { partitionsConsumedConcurrently: 1 })
  const first = kit.call(fetchOf(records('a')))
  const second = kit.call(fetchOf(records('b'), { partition: 1 }))
  await kit.clock.advance(5_000)
  expect([first.ended, second.ended]).toEqual([true, false])
})
