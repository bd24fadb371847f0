import { expect, test } from 'vitest'
import { type Fetch, fetchOf, message } from './fixtures/fetch.ts'
import { type Member, records, trusted } from './fixtures/member.ts'

const defer = (kit: Member, afterMs: number) => {
  const until = (kit.clock.nowMs + afterMs) as never
  return { kind: 'defer', reason: 'failed', until } as const
}

const many = (count: number, first = 40): Fetch =>
  fetchOf(Array.from({ length: count }, (_, index) => message(first + index, 'b')))

// Red when a callback waits for a time: kafkajs fetches nothing, and other partitions wait as long.
test('a callback returns as soon as its records only wait for a time', async () => {
  const kit = await trusted({ concurrency: 8 })
  const callback = kit.call(fetchOf(records('a', 'a')))
  await kit.clock.advance(0)
  kit.settle(40, defer(kit, 60_000))
  kit.settle(41, defer(kit, 60_000))
  await kit.clock.advance(0)
  expect(callback.ended).toBe(true)
  // All records of the next fetch are behind the deferred one.
  const next = kit.call(fetchOf([message(42, 'a')]))
  await kit.clock.advance(0)
  expect([next.ended, kit.offsets(), kit.told]).toEqual([true, ['40', '41'], []])
})

test('a thousand records in hand pause the partition, until the first of them is settled', async () => {
  const kit = await trusted({ concurrency: 200 })
  kit.call(fetchOf(records('a')))
  await kit.clock.advance(0)
  kit.settle(40, defer(kit, 60_000))
  kit.state.decide = () => ({ kind: 'ack', by: 'processed' })
  const below = kit.call(many(998, 41))
  await kit.clock.advance(300)
  expect([below.ended, kit.told]).toEqual([true, []])
  const at = kit.call(many(2, 1_039))
  await kit.clock.advance(300)
  expect([at.ended, kit.told]).toEqual([true, ['pause 0']])
  await kit.clock.advance(60_000)
  expect(kit.told).toEqual(['pause 0', 'resume 0'])
  expect(at.fetch.calls.at(-1)).toBe('commit 1041')
})

test.each([
  ['value', (bytes: Buffer) => ({ value: bytes })],
  ['headers', (bytes: Buffer) => ({ headers: { one: [bytes, 'x'] } })],
])('four MiB in hand pause the partition: %s', async (_what, more) => {
  const kit = await trusted({ concurrency: 8 })
  const mib = Buffer.alloc(1_024 * 1_024)
  for (let at = 0; at < 4; at += 1) {
    kit.call(fetchOf([message(40 + at, `key-${at}`, more(mib))]))
    await kit.clock.advance(0)
    expect(kit.told).toEqual([])
    kit.settle(40 + at, defer(kit, 60_000))
    await kit.clock.advance(0)
  }
  expect(kit.told).toEqual(['pause 0'])
  await kit.clock.advance(60_300)
  kit.settle(40)
  await kit.clock.advance(300)
  expect(kit.told).toEqual(['pause 0', 'resume 0'])
})

// Red when the pause comes after the commit: kafkajs fetches past the bound while the commit is under way.
test('a partition at its bound is paused before its offset is committed', async () => {
  const kit = await trusted({ concurrency: 1 }, { batch: { size: 1 } })
  const fetch = many(1_200)
  const committed = Promise.withResolvers<void>()
  fetch.payload.commitOffsetsIfNecessary = () => committed.promise
  kit.call(fetch)
  await kit.clock.advance(0)
  kit.settle(40)
  await kit.clock.advance(600)
  expect(kit.told).toEqual(['pause 0'])
  committed.resolve()
})

// Red when the callback returns: with every partition paused, kafkajs sleeps for `maxWaitTimeInMs` and does nothing else.
test('kafkajs waits for a busy partition at its bound if there is no other to fetch', async () => {
  const kit = await trusted({ concurrency: 1 }, { batch: { size: 1 } })
  kit.join([0])
  await kit.clock.advance(1_001)
  const callback = kit.call(many(1_010))
  await kit.clock.advance(5_000)
  expect([callback.ended, kit.told]).toEqual([false, []])
  for (let offset = 40; offset < 51; offset += 1) {
    kit.settle(offset)
    await kit.clock.advance(0)
  }
  await kit.clock.advance(500)
  expect([callback.ended, kit.told]).toEqual([true, []])
})
