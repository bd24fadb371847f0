import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'
import { DeliveryChannel } from './clients/amqplib.ts'
import { fromAmqpMessage, type Received } from './delivery.ts'
import { delayQueuesOf } from './fixtures/delay-queues.ts'
import { message, RecordingChannel, RecordingConnection } from './fixtures/recording-channel.ts'
import { resolveSettings } from './options.ts'
import { createSettleContext, returnUnstarted, type SettleContext, settle } from './settle.ts'

const queue = 'orders'
const NOW_MS = 1_000_000
const HOLD_MS = 5_000
const OLDEST_MS = 600_000

function setUp(place: SettleContext['place']['kind'] = 'record') {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  const channel = new DeliveryChannel(new RecordingChannel(connection) as never)
  const state = { mayHold: true, isQuiet: true, isPublished: true }
  const published: object[] = []
  const parts = {
    delayQueues: delayQueuesOf(made.port),
    rejectsTo: () => undefined,
  }
  const settings = resolveSettings({ queue }, made.port.settings)
  const context: SettleContext = {
    ...createSettleContext({ ...parts, port: made.port, settings, publisher: {} as never }),
    settings: { queue, levelsMs: [1_000, 30_000], holdMs: HOLD_MS, oldestMs: OLDEST_MS },
    publisher: {
      publish: async (outgoing) => {
        published.push(outgoing)
        if (!state.isPublished) throw new Error('message nacked')
      },
    },
    place: place === 'publish' ? { kind: place, publish: async () => undefined } : { kind: place },
    mayHold: () => state.mayHold,
    stopDeliveries: async () => state.isQuiet,
  }
  const receive = (headers: object = {}, receivedAtMs: number = NOW_MS): Received => {
    const properties = { messageId: 'm-a', headers } as Partial<ConsumeMessage['properties']>
    const received = message('a', { deliveryTag: 1 }, properties)
    channel.delivered(received)
    return {
      message: received,
      delivery: fromAmqpMessage(received, queue),
      channel,
      receivedAtMs,
      rounds: 0,
    }
  }
  return { ...made, connection, channel, state, published, context, receive }
}

const ack: Settlement = { kind: 'ack', by: 'processed' }
const dead: Settlement = { kind: 'dead-letter', reason: 'fatal' }
const closing: Settlement = { kind: 'abandon', reason: 'closing' }
const down: Settlement = { kind: 'defer', reason: 'store-down', until: (NOW_MS + 2_000) as never }
const failed = (ms: number): Settlement => ({
  ...{ kind: 'defer', reason: 'failed', until: (NOW_MS + ms) as never },
})

/** Retries 5 to 30 s later; the clock's random is one half. */
const KEPT_UNTIL_MS = NOW_MS + 17_500

test('a settlement that reaches the channel is not reported', async () => {
  const kit = setUp()
  expect(await settle(kit.context, kit.receive(), ack)).toBeUndefined()
  expect(await returnUnstarted(kit.context, kit.receive())).toBeUndefined()
  await kit.clock.advance(0)
  expect(kit.connection.named('ack', 'nack').map(({ name }) => name)).toEqual(['ack', 'nack'])
  expect(kit.context.report.settleFailures).toBe(0)
  expect(kit.logged).toEqual([])
})

test.each<[Settlement]>([[ack], [closing], [dead], [failed(20_000)]])(
  'a settlement on a closed channel is reported: %o',
  async (settlement) => {
    const kit = setUp()
    const received = kit.receive()
    kit.channel.closed()
    expect(await settle(kit.context, received, settlement)).toBeUndefined()
    expect(kit.published).toEqual([])
    expect(kit.context.report.settleFailures).toBe(1)
    const fields = { queue, deliveryTag: 1, reason: 'its channel is closed' }
    // The publisher's own id may be the event key, which the log has only as a hash.
    expect(kit.logged).toMatchObject([{ level: 'warn', fields }])
    expect(kit.logged[0]?.fields).not.toHaveProperty('messageId')
  },
)

// Red when the message is returned at once: it would be redelivered again and again.
test('a message that would return to this consumer at once stays unsettled until its channel closes', async () => {
  const kit = setUp()
  kit.state.isQuiet = false
  expect(await settle(kit.context, kit.receive(), closing)).toBeUndefined()
  expect(kit.connection.settled()).toEqual([])
  expect(kit.context.report.settleFailures).toBe(0)
})

test('a wait up to `holdMs` is held, and a longer one goes into a copy that counts one more deferral', async () => {
  const kit = setUp()
  expect(await settle(kit.context, kit.receive(), failed(HOLD_MS))).toBe(NOW_MS + HOLD_MS)
  expect(kit.published).toEqual([])
  const again = kit.receive({ 'x-onceward-deferrals': 2 })
  expect(await settle(kit.context, again, failed(HOLD_MS + 1))).toBeUndefined()
  expect(kit.published).toMatchObject([
    { routingKey: 'orders.retry.30000', options: { headers: { 'x-onceward-deferrals': 3 } } },
  ])
})

// The guard tells a time of day, which may be set back or forward while the message waits.
test('a wait begins at the time of day, and ends on the monotonic clock', async () => {
  const kit = setUp()
  const apartMs = 3_600_000
  const runtime = { ...kit.clock.runtime, now: () => (NOW_MS + apartMs) as never }
  const settling = settle({ ...kit.context, runtime }, kit.receive(), failed(apartMs + 2_000))
  expect(await settling).toBe(NOW_MS + 2_000)
})

test('an event that is running elsewhere is looked at again after `holdMs` at the latest', async () => {
  const kit = setUp()
  const runtime = { ...kit.clock.runtime, random: () => 0 }
  const received = { ...kit.receive(), rounds: 9 }
  const busy: Settlement = { kind: 'defer', reason: 'in-progress', until: NOW_MS as never }
  expect(await settle({ ...kit.context, runtime }, received, busy)).toBe(NOW_MS + HOLD_MS)
})

test('during a store outage a message is held until it would reach the consumer timeout', async () => {
  const kit = setUp()
  const heldUntil = NOW_MS + 2_500
  const oldest = heldUntil - OLDEST_MS
  expect(await settle(kit.context, kit.receive({}, oldest), down)).toBe(heldUntil)
  expect(kit.published).toEqual([])
  expect(await settle(kit.context, kit.receive({}, oldest - 1), down)).toBeUndefined()
  expect(kit.published).toMatchObject([{ routingKey: 'orders.retry.30000' }])
})

test('during a store outage a message is returned if it may not be held', async () => {
  const kit = setUp()
  kit.state.mayHold = false
  expect(await settle(kit.context, kit.receive(), down)).toBeUndefined()
  expect(kit.connection.settled()).toEqual([['nack', 1, false, true]])
  expect(kit.published).toEqual([])
})

test('a copy that is not confirmed is reported, and the message is held', async () => {
  const kit = setUp()
  kit.state.isPublished = false
  expect(await settle(kit.context, kit.receive(), failed(20_000))).toBe(KEPT_UNTIL_MS)
  expect(kit.connection.settled()).toEqual([])
  const fields = { queue, deliveryTag: 1, reason: expect.stringMatching(/message nacked/) }
  expect(kit.logged).toMatchObject([{ level: 'error', fields }])
})

// Health reports the failure until the next try. A message that goes back to its queue is tried by the next consumer.
test.each([
  ['kept in hand, until it is tried again', 0, KEPT_UNTIL_MS],
  ['too old to be kept, for a moment', OLDEST_MS, NOW_MS],
])('a delay queue has failed for a message that is %s', async (_, ageMs, untilMs) => {
  const kit = setUp()
  kit.state.isPublished = false
  const failures: unknown[] = []
  const delayQueues: SettleContext['delayQueues'] = {
    ensure: async () => undefined,
    succeeded: () => undefined,
    failed: (error, reason, until) => void failures.push([String(error), reason, until]),
  }
  const received = kit.receive({}, NOW_MS - ageMs)
  await settle({ ...kit.context, delayQueues }, received, failed(20_000))
  const error = 'Error: message nacked'
  expect(failures).toEqual([[error, error, untilMs]])
})

test('a dead letter that cannot be published keeps its message, and only errors are reported', async () => {
  const kit = setUp('publish')
  const settling = (error?: Error) => {
    const port = {
      publishDeadLetter: async () =>
        ({ kind: 'retry', cause: 'dead-letter-place-down', error }) as const,
    }
    return settle({ ...kit.context, port }, kit.receive(), dead)
  }
  // Another process is publishing it right now.
  expect(await settling()).toBe(NOW_MS + 1_100)
  expect(kit.logged).toEqual([])
  expect(await settling(new Error('no such queue'))).toBe(KEPT_UNTIL_MS)
  expect(kit.connection.settled()).toEqual([])
  const fields = { queue, deliveryTag: 1, reason: expect.stringMatching(/no such queue/) }
  expect(kit.logged).toMatchObject([{ level: 'error', fields }])
})

// Red when the rejection reaches the loop: the loop would end, with other messages in hand.
// Red before: the copy could not be made, so the message came back again and again.
test('a copy leaves out a header that amqplib reads and cannot write, because it nests too deep', async () => {
  const nested = (levels: number): unknown => {
    let value: unknown = 'end'
    for (let level = 0; level < levels; level += 1) value = { a: [value] }
    return value
  }
  const { context, published, receive } = setUp()
  const received = receive({ deep: nested(10_000), over: nested(251), most: nested(250), a: 1 })
  expect(received.delivery.headers).toEqual({ a: '1' })
  expect(await settle(context, received, failed(20_000))).toBeUndefined()
  expect(published).toHaveLength(1)
  const { headers } = (published[0] as { options: { headers: object } }).options
  expect(headers).toMatchObject({ a: 1, most: nested(250) })
  expect(headers).not.toHaveProperty('deep')
  expect(headers).not.toHaveProperty('over')
  expect(context.report.settleFailures).toBe(0)
})

test('a settlement that throws is reported, and the message is held', async () => {
  const kit = setUp('publish')
  const port = { publishDeadLetter: () => Promise.reject(new Error('no connection')) }
  expect(await settle({ ...kit.context, port }, kit.receive(), dead)).toBe(KEPT_UNTIL_MS)
  expect(kit.connection.settled()).toEqual([])
  expect(kit.context.report.settleFailures).toBe(1)
  const fields = { queue, deliveryTag: 1, reason: expect.stringMatching(/no connection/) }
  expect(kit.logged).toMatchObject([{ level: 'warn', fields }])
})
