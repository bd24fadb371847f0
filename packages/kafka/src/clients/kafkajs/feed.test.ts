import { expect, test } from 'vitest'
import { ack } from '../../fixtures/ack.ts'
import { fetchOf, message, protocolError } from '../../fixtures/fetch.ts'
import { records, trusted } from '../../fixtures/member.ts'

test('K7: a batch that was fetched before the rebalance is refused with the same error object', async () => {
  const kit = await trusted()
  const before = kit.handed.length
  const fetch = fetchOf(records('a'))
  const raw = protocolError('REBALANCE_IN_PROGRESS')
  fetch.broker.heartbeat = Object.assign(new Error('wrapped', { cause: raw }), { retriable: false })
  const callback = kit.call(fetch)
  await kit.clock.advance(0)
  expect(callback.error).toBe(raw)
  expect(kit.handed).toHaveLength(before)
})

// Red when kafkajs may go on: it has no member id, or that of another generation, and never joins (C20).
test('records that come to a member without its group are refused with an error that makes kafkajs join', async () => {
  const kit = await trusted()
  const refused = async () => {
    const callback = kit.call(fetchOf(records('a')))
    await kit.clock.advance(0)
    return callback.error
  }
  kit.emit('REBALANCING')
  expect(await refused()).toMatchObject({ type: 'REBALANCE_IN_PROGRESS' })
  kit.join([0, 1])
  kit.emit('HEARTBEAT', { groupGenerationId: 1 })
  expect(await refused()).toBeUndefined()
  kit.emit('HEARTBEAT', { groupGenerationId: 2 })
  expect(await refused()).toMatchObject({ type: 'REBALANCE_IN_PROGRESS' })
  kit.join([0, 1])
  await kit.clock.advance(90_000)
  expect(await refused()).toMatchObject({ type: 'REBALANCE_IN_PROGRESS' })
})

test('K9: a batch of a partition that the last join no longer lists is dropped', async () => {
  const kit = await trusted()
  const before = kit.handed.length
  kit.join([1])
  const callback = kit.call(fetchOf(records('a')))
  await kit.clock.advance(0)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect(kit.handed).toHaveLength(before)
})

// Red when only the callback knows its partition: its offset is committed with a generation that is valid (K9).
test('K9: a join that takes a partition away aborts its handlers after five seconds and moves no offset', async () => {
  const kit = await trusted({ concurrency: 1 })
  const lost = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  kit.join([1])
  // kafkajs is at the committed offset after a join.
  expect(kit.told).toEqual(['seek 1 40'])
  await kit.clock.advance(4_999)
  expect(kit.hooks.at(-1)?.abort?.aborted).toBe(false)
  await kit.clock.advance(1)
  expect(kit.hooks.at(-1)?.abort?.aborted).toBe(true)
  kit.settle(40)
  await kit.clock.advance(5_000)
  expect(lost.fetch.calls).toEqual(['resolve 41'])
})

// Red when the TypeError of kafkajs, whose positions lack the topic, leaves the callback: the consumer ends (K5).
test('K9: a join during a fetch that takes the topic away ends the batch', async () => {
  const kit = await trusted({ concurrency: 8 })
  const fetch = fetchOf(records('a', 'b'))
  fetch.payload.resolveOffset = () => {
    throw new TypeError("Cannot set properties of undefined (setting '0')")
  }
  const callback = kit.call(fetch)
  await kit.clock.advance(4_000)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect([fetch.calls, kit.consumption.health().inFlight]).toEqual([[], 0])
})

test('a batch that was fetched before a seek is dropped, and comes again', async () => {
  const kit = await trusted()
  const before = kit.handed.length
  const fetch = fetchOf(records('a'))
  fetch.broker.isStale = true
  kit.call(fetch)
  await kit.clock.advance(0)
  expect([fetch.calls, kit.handed.length]).toEqual([[], before])
})

test('a member with a new id starts again, because others may have had its partitions', async () => {
  const kit = await trusted({ concurrency: 1 })
  const callback = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  kit.join([0], 'm-2')
  expect(kit.told).toEqual([])
  kit.settle(40)
  await kit.clock.advance(1_000)
  expect([callback.fetch.calls, kit.offsets().slice(2)]).toEqual([['resolve 41'], ['40']])
})

// Red when known offsets are taken for records in hand: after a truncation they are other records, and would be skipped.
// Red when a partition that was set back is taken for committed at its first record: the group keeps the higher offset
// while that record waits, and the next owner skips it (K11).
test('a partition that is set back drops its records in hand, is read again, and is committed there at once', async () => {
  const kit = await trusted({ concurrency: 8 })
  const lost = kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  const again = kit.call(fetchOf([message(3, 'c'), message(4, 'd')]))
  await kit.clock.advance(250)
  expect(kit.offsets().slice(2)).toEqual(['40', '41', '3', '4'])
  expect(again.fetch.calls).toEqual(['resolve 4', 'commit 3'])
  for (const { settle } of kit.handed) settle(ack)
  await kit.clock.advance(1_000)
  expect(lost.fetch.calls).toEqual(['resolve 41'])
  expect(again.fetch.calls.at(-1)).toBe('commit 5')
})

test('control records behind the last record are passed with it', async () => {
  const kit = await trusted({ concurrency: 1 })
  const callback = kit.call(fetchOf(records('a'), { lastOffset: '42' }))
  await kit.clock.advance(0)
  kit.settle(40)
  await kit.clock.advance(1_000)
  expect(callback.fetch.calls).toEqual(['resolve 42', 'commit 43'])
})

// Red when the record keeps what kafkajs cut it out of: the whole answer to its fetch.
test('records have bytes of their own, in headers too, also where one is called __proto__', async () => {
  const kit = await trusted({ concurrency: 1 })
  const answer = Buffer.from('key value header')
  const headers = { ['__proto__']: answer.subarray(10), list: [answer.subarray(0, 3), null] }
  const record = message(40, answer.subarray(0, 3), {
    value: answer.subarray(4, 9),
    headers: headers as never,
  })
  kit.call(fetchOf([record]))
  await kit.clock.advance(0)
  answer.fill(0)
  expect([String(record.key), String(record.value)]).toEqual(['key', 'value'])
  const values = Object.entries(record.headers ?? {}).map(([name, value]) => [name, String(value)])
  expect(values).toEqual([
    ['__proto__', 'header'],
    ['list', 'key,'],
  ])
})

test('a paused partition that goes is resumed, because kafkajs keeps pauses over a join', async () => {
  const kit = await trusted({ concurrency: 1 })
  const many = Array.from({ length: 1_000 }, (_, index) => message(40 + index, 'b'))
  kit.call(fetchOf(many))
  await kit.clock.advance(0)
  expect(kit.told).toEqual(['pause 0'])
  kit.join([1])
  expect(kit.told.slice(1)).toEqual(['resume 0', 'seek 1 40'])
})

// Red when only batches with records count: kafkajs calls nobody for one that has marks of transactions alone.
test('marks of transactions behind the last record are passed, unless they were fetched before a join', async () => {
  const kit = await trusted()
  const { fetch } = kit.call(fetchOf(records('a')))
  await kit.clock.advance(0)
  kit.settle(40)
  const marks = { ...{ topic: 'orders', partition: 0 }, batchSize: 0, lastOffset: '43' }
  kit.emit('END_BATCH_PROCESS', { ...marks, firstOffset: '42' })
  await kit.clock.advance(250)
  expect(fetch.calls.at(-1)).toBe('commit 41')
  kit.emit('END_BATCH_PROCESS', { ...marks, firstOffset: '41' })
  await kit.clock.advance(250)
  expect(fetch.calls.at(-1)).toBe('commit 44')
})
