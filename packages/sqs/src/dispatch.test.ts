import type { Settlement } from '@onceward/core'
import type { GuardSettings } from '@onceward/core/adapter'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { createSqsApi } from './clients/aws-sdk.ts'
import { Dispatcher } from './dispatch.ts'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import { type ConsumeSqsOptions, resolveSettings } from './options.ts'
import { createSettleContext } from './settle.ts'
import { createAccept, type Received } from './visibility.ts'

const ack: Settlement = { kind: 'ack', by: 'processed' }

/** A dispatcher for which the test decides receives, settlements and time. */
function setUp(
  guard: Partial<GuardSettings> = {},
  {
    queueUrl = 'http://127.0.0.1/000000000000/orders',
    ...options
  }: Partial<ConsumeSqsOptions> = {},
) {
  const made = handMadeGuard(guard)
  const { port, clock } = made
  const recording = new RecordingClient()
  const settings = resolveSettings({ queueUrl, ...options }, port.settings)
  const api = createSqsApi(recording.client, queueUrl, port.runtime)
  const context = createSettleContext(port, api, settings)
  const accept = createAccept(settings, context.ticker)
  const [stop, abort] = [new AbortController(), new AbortController()]
  const counts = { known: 0, settled: 0, rooms: 0 }
  const dispatcher = new Dispatcher({
    port,
    settings,
    context,
    signals: { stop: stop.signal, abort: abort.signal },
    onKnown: () => {
      counts.known += 1
    },
    onRoom: () => {
      counts.rooms += 1
    },
    onSettled: () => {
      counts.settled += 1
    },
  })
  /** `a1` is the first message of group `a` where the queue has groups. */
  const receive = (...names: readonly string[]): readonly Received[] => {
    const messages = names.map((name) => message(name, { MessageGroupId: name[0] ?? '' }))
    return accept(messages, clock.nowMs)
  }
  const run = (): readonly string[] =>
    made.handed.map(({ delivery }) => JSON.parse(String(delivery.body)).name)
  const settle = (name: string, settlement: Settlement = ack): void =>
    made.handed[run().lastIndexOf(name)]?.settle(settlement)
  const down = (): Settlement => ({
    kind: 'defer',
    reason: 'store-down',
    until: clock.nowMs as never,
  })
  return { ...made, recording, dispatcher, stop, abort, counts, receive, run, settle, down }
}

const fifo = { queueUrl: 'http://127.0.0.1/000000000000/orders.fifo' }

test('the consumer may have one message in hand per slot, and up to ten more if handlers are quick', async () => {
  const kit = setUp({ concurrency: 2 })
  expect([kit.dispatcher.capacity, kit.dispatcher.room, kit.dispatcher.worthwhile]).toEqual([
    2, 2, 1,
  ])
  kit.dispatcher.take(kit.receive('a'))
  expect([kit.dispatcher.room, kit.dispatcher.inFlight]).toEqual([1, 1])
  await kit.clock.advance(400)
  kit.settle('a')
  await kit.clock.advance(0)
  // Two slots, and the five messages that they can start within a second.
  expect([kit.dispatcher.capacity, kit.dispatcher.room, kit.dispatcher.worthwhile]).toEqual([
    7, 7, 5,
  ])
  const quick = setUp({ concurrency: 2 })
  quick.state.decide = () => ack
  quick.dispatcher.take(quick.receive('a'))
  await quick.clock.advance(100)
  expect([
    quick.dispatcher.capacity,
    quick.dispatcher.worthwhile,
    quick.dispatcher.inFlight,
  ]).toEqual([12, 10, 0])
  expect(quick.counts).toEqual({ known: 1, settled: 1, rooms: 2 })
})

test('many slots prefetch as many messages again, and batches prefetch one batch', async () => {
  const many = setUp({ concurrency: 30 })
  const batch = setUp({ concurrency: 3, transaction: 'batch' }, { batch: { size: 5, lingerMs: 0 } })
  expect(batch.dispatcher.capacity).toBe(15)
  for (const kit of [many, batch]) {
    kit.state.decide = () => ack
    kit.dispatcher.take(kit.receive('a'))
    await kit.clock.advance(100)
  }
  expect([many.dispatcher.capacity, many.dispatcher.worthwhile]).toEqual([60, 10])
  expect([batch.dispatcher.capacity, batch.dispatcher.worthwhile]).toEqual([20, 5])
})

// Red when messages in settlement are not counted: they would fill the memory if SQS answers only receives.
test('receiving pauses while SQS leaves very many settlements without an answer', async () => {
  const kit = setUp({ concurrency: 1 })
  kit.recording.answers.set('delete', () => new Promise(() => undefined))
  kit.state.decide = () => ack
  // Twice as many as may be in hand, and fifty.
  for (let count = 0; count < 72; count += 1) {
    kit.dispatcher.take(kit.receive(`m${count}`))
    await kit.clock.advance(0)
  }
  expect([kit.dispatcher.room, kit.dispatcher.inFlight]).toEqual([11, 72])
  kit.dispatcher.take(kit.receive('last'))
  await kit.clock.advance(0)
  expect([kit.dispatcher.room, kit.dispatcher.inFlight]).toEqual([0, 73])
})

test('a group occupies one slot until its last message has a result', async () => {
  const kit = setUp({ concurrency: 1 }, fifo)
  kit.dispatcher.take(kit.receive('a1', 'b1', 'a2'))
  expect(kit.run()).toEqual(['a1', 'a2'])
  kit.settle('a1')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['a1', 'a2'])
  kit.settle('a2')
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['a1', 'a2', 'b1'])
})

test('the group that has waited longest probes the store, without a pause', async () => {
  const kit = setUp({ concurrency: 4 }, fifo)
  kit.dispatcher.take(kit.receive('a1', 'b1', 'b2'))
  for (const name of ['b2', 'b1', 'a1']) {
    kit.settle(name, kit.down())
    await kit.clock.advance(10)
  }
  expect(kit.dispatcher.resume('one')).toBe(true)
  expect(kit.run().slice(3)).toEqual(['b1', 'b2'])
  expect(kit.dispatcher.resume('one')).toBe(true)
  expect(kit.run().slice(5)).toEqual(['a1'])
  expect(kit.dispatcher.resume('one')).toBe(false)
})

// Red when the message is resumed: another consumer may have it before its handler starts.
test('a message that becomes visible within two seconds is left to its next receive', async () => {
  const waiting = async (elapsedMs: number) => {
    const kit = setUp({}, fifo)
    kit.dispatcher.take(kit.receive('a1'))
    kit.settle('a1', kit.down())
    await kit.clock.advance(5)
    await kit.clock.advance(elapsedMs - 5)
    return [kit.dispatcher.resume('one'), kit.dispatcher.inFlight]
  }
  expect(await waiting(27_999)).toEqual([true, 1])
  expect(await waiting(28_000)).toEqual([false, 0])
})

test('a clear returns messages that are unstarted or wait for the store, and no running ones', async () => {
  const kit = setUp({ concurrency: 2 })
  kit.dispatcher.take(kit.receive('a', 'b', 'c', 'd'))
  kit.settle('a', kit.down())
  await kit.clock.advance(10)
  expect(kit.run()).toEqual(['a', 'b', 'c'])
  kit.dispatcher.clear()
  expect(kit.dispatcher.inFlight).toBe(4)
  let isEnded = false
  const ended = kit.dispatcher.ended().then(() => {
    isEnded = true
  })
  await kit.clock.advance(10)
  expect(kit.recording.changed().at(-1)?.toSorted()).toEqual([
    ['h-a', 0],
    ['h-d', 0],
  ])
  expect([kit.dispatcher.inFlight, kit.dispatcher.room, isEnded]).toEqual([
    2,
    kit.dispatcher.capacity - 2,
    false,
  ])
  kit.settle('b')
  kit.settle('c')
  await kit.clock.advance(100)
  await ended
  expect(kit.dispatcher.inFlight).toBe(0)
})
