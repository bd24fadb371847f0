import { expect, test } from 'vitest'
import { type Fetch, fetchOf, message, protocolError } from './fixtures/fetch.ts'
import { type Member, records, setUp, trusted } from './fixtures/member.ts'

/** Counts the heartbeats of a fetch, and answers them as given. */
function beatsOf(fetch: Fetch, answer: () => Promise<void> = async () => undefined) {
  const beats = { count: 0 }
  fetch.payload.heartbeat = () => {
    beats.count += 1
    return answer()
  }
  return beats
}

/** Settles the records one by one, at that interval. */
async function settleEach(kit: Member, everyMs: number, untilMs: number): Promise<void> {
  for (let atMs = everyMs; atMs <= untilMs; atMs += everyMs) {
    await kit.clock.advance(everyMs)
    kit.settle(Number(kit.offsets().at(-1)))
  }
}

const many = (): Fetch => fetchOf(records(...Array.from({ length: 60 }, () => 'a')))

// Red when the time begins with the assignment: on a slow network the message that killed the last member is fetched later,
// its run is not counted, and it kills one process after the other.
test('records are suspects for half a second after the first fetch of an assigned partition', async () => {
  const suspect = async (elapsedMs: number) => {
    const kit = setUp()
    kit.join([0])
    await kit.clock.advance(5_000)
    kit.call(fetchOf(records('a')))
    await kit.clock.advance(0)
    kit.settle(40)
    await kit.clock.advance(elapsedMs)
    kit.call(fetchOf([message(41, 'a')]))
    await kit.clock.advance(0)
    return kit.handed.map(({ delivery }) => delivery.redelivered)
  }
  expect(await suspect(499)).toEqual([true, true])
  expect(await suspect(500)).toEqual([true, undefined])
})

test('a batch sends a heartbeat four times a second, as long as kafkajs waits for it', async () => {
  const kit = await trusted({ concurrency: 1 }, { batch: { size: 1 } })
  const fetch = many()
  const beats = beatsOf(fetch)
  const callback = kit.call(fetch)
  await kit.clock.advance(0)
  // One heartbeat before the batch was accepted.
  expect(beats.count).toBe(1)
  await settleEach(kit, 100, 1_000)
  expect(beats.count).toBe(5)
  await settleEach(kit, 100, 1_000)
  expect([callback.ended, beats.count]).toEqual([true, 9])
  // Then kafkajs sends the heartbeats itself.
  await kit.clock.advance(1_000)
  expect(beats.count).toBe(9)
})

// Red when each batch sends a heartbeat: kafkajs opens a connection for every request to a broker that is down.
test('one heartbeat is in flight at a time, and while it is unanswered no other is sent', async () => {
  const kit = await trusted({ concurrency: 8 })
  const [first, second] = [fetchOf(records('a')), fetchOf(records('b'), { partition: 1 })]
  kit.call(first)
  const answered = Promise.withResolvers<void>()
  await kit.clock.advance(100)
  const beats = beatsOf(first, () => answered.promise)
  kit.call(second)
  await kit.clock.advance(0)
  const others = beatsOf(second)
  await kit.clock.advance(5_000)
  expect([beats.count, others.count]).toEqual([1, 0])
  answered.resolve()
})

test('a failed heartbeat stops commits until the broker answers something', async () => {
  const kit = await trusted({ concurrency: 8 })
  const fetch = fetchOf(records('a', 'b'))
  kit.call(fetch)
  await kit.clock.advance(0)
  fetch.broker.heartbeat = new Error('connect ECONNREFUSED')
  await kit.clock.advance(300)
  kit.settle(40)
  await kit.clock.advance(2_000)
  expect(fetch.calls.filter((call) => call.startsWith('commit'))).toEqual([])
  kit.partitionBatches.answered()
  await kit.clock.advance(250)
  expect(fetch.calls.filter((call) => call.startsWith('commit'))).toEqual(['commit 41'])
})

// Red when the error stays: the offset would wait for the next records, and the partition with it.
test('K6: an offset that a rebalance refused is committed after the join', async () => {
  const kit = await trusted({ concurrency: 8 })
  const fetch = fetchOf(records('a', 'b'))
  const callback = kit.call(fetch)
  await kit.clock.advance(600)
  expect(callback.ended).toBe(true)
  fetch.broker.commit = protocolError('REBALANCE_IN_PROGRESS')
  kit.settle(40)
  await kit.clock.advance(300)
  kit.join([0])
  fetch.broker.commit = undefined
  await kit.clock.advance(300)
  expect(fetch.calls.at(-1)).toBe('commit 41')
  kit.settle(41)
  await kit.clock.advance(300)
  expect([fetch.calls.at(-1), kit.partitionBatches.open]).toEqual(['commit 42', []])
})

test('no record is started once a rebalance is known', async () => {
  const kit = await trusted({ concurrency: 1 }, { batch: { size: 1 } })
  const fetch = fetchOf(records('a', 'b'))
  const callback = kit.call(fetch)
  await kit.clock.advance(10)
  const raw = protocolError('REBALANCE_IN_PROGRESS')
  fetch.broker.heartbeat = raw
  await kit.clock.advance(300)
  kit.settle(40)
  await kit.clock.advance(300)
  expect([callback.error, kit.offsets()]).toEqual([raw, ['40']])
  kit.join([0])
  await kit.clock.advance(0)
  expect(kit.offsets()).toEqual(['40', '41'])
})
