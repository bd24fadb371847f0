import { expect, test } from 'vitest'
import { fetchOf, message } from '../../fixtures/fetch.ts'
import { ack, type Member, records, setUp, stopped, trusted } from '../../fixtures/member.ts'

const later = (kit: Member) =>
  ({ kind: 'defer', reason: 'failed', until: (kit.clock.nowMs + 60_000) as never }) as const

/** Whether the promise has resolved by now. */
function watched(promise: Promise<void>) {
  const end = { isOver: false }
  void promise.then(() => {
    end.isOver = true
  })
  return end
}

// Red when a stop waits for ever, or not at all, for handlers whose partition another member has.
test('a stop waits for the handlers of a partition that was lost, and ends with them', async () => {
  const kit = await trusted({ concurrency: 8 })
  kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  kit.join([1])
  const end = watched(stopped(kit))
  kit.settle(40)
  await kit.clock.advance(1_000)
  expect([end.isOver, kit.partitionBatches.inFlight]).toEqual([false, 1])
  kit.settle(41)
  await kit.clock.advance(0)
  expect([end.isOver, kit.partitionBatches.inFlight]).toEqual([true, 0])
})

test('a stop does not wait for a partition that was lost with nothing of it running', async () => {
  const kit = await trusted({ concurrency: 8 })
  kit.call(fetchOf(records('a')))
  await kit.clock.advance(0)
  kit.settle(40, later(kit))
  await kit.clock.advance(0)
  kit.join([1])
  const end = watched(stopped(kit))
  await kit.clock.advance(0)
  expect(end.isOver).toBe(true)
})

// Red when only a commit ends a stop: the broker answers it to nobody after the consumer has left.
test('a stop ends when its consumer leaves the group during the last commit', async () => {
  const kit = await trusted({ concurrency: 8 })
  const fetch = fetchOf(records('a'))
  fetch.payload.commitOffsetsIfNecessary = () => new Promise(() => undefined)
  kit.call(fetch)
  await kit.clock.advance(0)
  kit.settle(40)
  await kit.clock.advance(0)
  const end = watched(stopped(kit))
  await kit.clock.advance(0)
  expect(end.isOver).toBe(false)
  kit.partitionBatches.left()
  await kit.clock.advance(0)
  expect(end.isOver).toBe(true)
})

test('a batch that lost its partition sends no heartbeats and keeps no timer', async () => {
  const kit = await trusted({ concurrency: 8 })
  kit.call(fetchOf(records('a')))
  await kit.clock.advance(600)
  kit.join([1])
  // The time of suspicion, for which the dispatcher has a timer, is over then.
  await kit.clock.advance(1_000)
  expect(kit.clock.timers).toBe(0)
})

// Red when the pause stays, because the batch whose beats would end it is gone: the partition stands still.
test('a partition that is paused for its records in hand goes on when a join takes these away', async () => {
  const kit = await trusted({ concurrency: 8 })
  const many = Array.from({ length: 1_001 }, (_, index) => message(40 + index, 'a'))
  kit.call(fetchOf(many))
  await kit.clock.advance(600)
  expect(kit.told).toEqual(['pause 0'])
  kit.join([0, 1], 'm-2')
  expect(kit.told).toEqual(['pause 0', 'resume 0'])
})

test('a position that is reset with nothing of its partition in hand ends its pause', async () => {
  const kit = await trusted()
  kit.partitionBatches.rewind({ topic: 'orders', partition: 1 })()
  expect(kit.told).toEqual(['pause 1', 'resume 1'])
})

// Red when records are trusted that the member which had the partition in between may have started.
test('records are suspects again after each join', async () => {
  const kit = setUp({ concurrency: 8 })
  kit.state.decide = () => ack
  const fetched = async (offset: number): Promise<boolean | undefined> => {
    kit.call(fetchOf([message(offset, 'a')]))
    await kit.clock.advance(1_000)
    return kit.handed.at(-1)?.delivery.redelivered
  }
  kit.join([0])
  expect([await fetched(40), await fetched(41)]).toEqual([true, undefined])
  kit.join([0], 'm-2')
  expect([await fetched(42), await fetched(43)]).toEqual([true, undefined])
})

// Red when the new consumer keeps the silence of the old one: nothing is committed for ten seconds.
test('a consumer that takes the place of one whose broker was silent commits at once', async () => {
  const kit = await trusted({ concurrency: 8 })
  const old = fetchOf(records('a'))
  kit.call(old)
  await kit.clock.advance(0)
  old.broker.heartbeat = new Error('connect ECONNREFUSED')
  await kit.clock.advance(300)
  const pausing = { pause: () => undefined, resume: () => undefined }
  const eachBatch = kit.partitionBatches.attach(pausing)
  kit.join([0], 'm-2')
  const fetch = fetchOf([message(50, 'b')])
  void eachBatch(fetch.payload)
  await kit.clock.advance(0)
  kit.settle(50)
  await kit.clock.advance(0)
  expect(fetch.calls).toEqual(['resolve 50', 'commit 51'])
})

// Red when the callback waits for records that no slot will start: the stop of the user waits for it, for ever.
test('a consumer that its user stops does not wait for records that have not started', async () => {
  const kit = await trusted({ concurrency: 1 })
  const busy = kit.call(fetchOf(records('a')))
  const waiting = kit.call(fetchOf(records('b'), { partition: 1 }))
  await kit.clock.advance(0)
  for (const { fetch } of [busy, waiting]) fetch.broker.isRunning = false
  await kit.clock.advance(250)
  expect([busy.ended, waiting.ended, kit.offsets()]).toEqual([false, true, ['40']])
  kit.settle(40)
  await kit.clock.advance(0)
  expect([busy.ended, kit.offsets()]).toEqual([true, ['40']])
})

test('K23: records that were fetched before a seek are not run', async () => {
  const kit = await trusted({ concurrency: 1 })
  const stale = fetchOf(records('a'))
  stale.broker.isStale = true
  const callback = kit.call(stale)
  await kit.clock.advance(0)
  expect(callback).toMatchObject({ ended: true, error: undefined })
  expect([kit.offsets(), stale.calls]).toEqual([[], []])
})
