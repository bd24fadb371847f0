import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { RecordingChannel, RecordingConnection } from './fixtures/recording-channel.ts'
import type { WrapAmqpOptions } from './options.ts'
import { wrapAmqp } from './wrap.ts'

const queue = 'orders'
const deadLetter = { queue: 'orders.dead' }

function setUp(options: Partial<WrapAmqpOptions> = {}) {
  const connection = new RecordingConnection()
  const channel = new RecordingChannel(connection)
  const made = handMadeGuard({ concurrency: 4 })
  const given = { queue, deadLetter, prefetch: 4, ...options }
  const wrapped = wrapAmqp(channel as never, made.guard, given)
  channel.callback = wrapped
  const until = (afterMs: number) => (made.clock.nowMs + afterMs) as never
  return { ...made, connection, channel, wrapped, until }
}

/** Leaves out the question for the virtual host, which a wrap asks once. */
async function asked(kit: ReturnType<typeof setUp>): Promise<void> {
  await kit.clock.advance(0)
  kit.connection.calls.length = 0
}

async function settled(kit: ReturnType<typeof setUp>, settlement: Settlement): Promise<void> {
  await asked(kit)
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  kit.handed[0]?.settle(settlement)
  await kit.clock.advance(0)
}

const defers = ['in-progress', 'not-due', 'failed'] as const

test.each(defers)(
  'a short defer for %s holds the message and delivers it again',
  async (reason) => {
    const kit = setUp()
    await settled(kit, { kind: 'defer', reason, until: kit.until(2_000) })
    expect(kit.connection.calls).toEqual([])
    await kit.clock.advance(1_900)
    expect(kit.handed).toHaveLength(1)
    await kit.clock.advance(600)
    expect(kit.handed).toHaveLength(2)
    expect(kit.handed[1]?.delivery).toMatchObject({ redelivered: true, deliveryCount: 2 })
    kit.handed[1]?.settle({ kind: 'ack', by: 'duplicate' })
    await kit.clock.advance(0)
    expect(kit.connection.settled()).toEqual([['ack', 1, false]])
  },
)

test('the delay queues of a quorum queue are quorum queues for a wrap too', async () => {
  const kit = setUp()
  kit.connection.answers.set('assertQueue', (name, given) => {
    const { arguments: args } = given as { arguments: object }
    if (name !== queue || 'x-queue-type' in args) return
    const why = "inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': received none"
    const text = `${why} but current is the value 'quorum' of type 'longstr'`
    throw Object.assign(new Error(text), { code: 406 })
  })
  await settled(kit, { kind: 'defer', reason: 'failed', until: kit.until(20_000) })
  const declared = kit.connection.named('assertQueue').at(-1)?.args
  expect(declared?.[1]).toMatchObject({ arguments: { 'x-queue-type': 'quorum' } })
})

// Red when the ack does not wait for the confirm.
test('a message whose deferral is not confirmed is held', async () => {
  const kit = setUp()
  kit.connection.answers.set('publish', () => new Error('message nacked'))
  await settled(kit, { kind: 'defer', reason: 'failed', until: kit.until(20_000) })
  expect(kit.connection.settled()).toEqual([])
  expect(kit.logged.map(({ text }) => text).join()).toContain('could not be deferred')
  await kit.clock.advance(30_000)
  expect(kit.handed).toHaveLength(2)
})

test('a message that can be neither published nor held longer is requeued before the server closes the channel', async () => {
  const kit = setUp({ consumerTimeoutMs: 180_000 })
  kit.connection.answers.set('publish', () => new Error('message nacked'))
  kit.state.decide = () => ({ kind: 'dead-letter', reason: 'fatal' })
  kit.channel.deliver('a')
  await kit.clock.advance(60_000)
  expect(kit.connection.settled()).toEqual([['nack', 1, false, true]])
  expect(kit.handed.length).toBeLessThan(6)
})

test('at most half of the prefetch is held, and the other messages go to the delay queue', async () => {
  const kit = setUp()
  kit.channel.deliver('a', 'b', 'c')
  await kit.clock.advance(0)
  for (const each of kit.handed) {
    each.settle({ kind: 'defer', reason: 'failed', until: kit.until(500) })
  }
  await kit.clock.advance(0)
  expect(kit.connection.published()).toMatchObject([{ routingKey: 'orders.retry.1000' }])
  expect(kit.connection.settled()).toEqual([['ack', 3, false]])
})

test('a busy event is tried again less and less often', async () => {
  const kit = setUp()
  kit.state.decide = () => ({ kind: 'defer', reason: 'in-progress', until: kit.until(1_000) })
  kit.channel.deliver('a')
  await kit.clock.advance(5_000)
  expect(kit.handed.length).toBeLessThanOrEqual(3)
})

test('during a store outage all received messages are held', async () => {
  const kit = setUp()
  await asked(kit)
  kit.channel.deliver('a', 'b', 'c', 'd')
  await kit.clock.advance(0)
  for (const each of kit.handed) {
    each.settle({ kind: 'defer', reason: 'store-down', until: kit.until(10_000) })
  }
  await kit.clock.advance(12_000)
  expect(kit.connection.calls).toEqual([])
  expect(kit.handed).toHaveLength(8)
})

test('a message that would exceed the consumer timeout of the server goes to a delay queue', async () => {
  const kit = setUp({ consumerTimeoutMs: 180_000 })
  kit.channel.deliver('a')
  await kit.clock.advance(59_000)
  kit.handed[0]?.settle({ kind: 'defer', reason: 'store-down', until: kit.until(2_000) })
  await kit.clock.advance(0)
  expect(kit.connection.published()).toMatchObject([{ routingKey: 'orders.retry.5000' }])
  expect(kit.connection.settled()).toEqual([['ack', 1, false]])
})

test('a message is acked only after its dead letter is published and confirmed', async () => {
  const kit = setUp()
  await settled(kit, { kind: 'dead-letter', reason: 'fatal' })
  expect(kit.connection.named('publish', 'ack').map(({ name }) => name)).toEqual(['publish', 'ack'])
  const [published] = kit.connection.published()
  expect(published).toMatchObject({ exchange: '', routingKey: 'orders.dead' })
  expect(published?.options.headers).toMatchObject({
    'Idempotency-Key': 'a',
    'x-onceward-reason': 'fatal',
    'x-onceward-error': 'no such order',
  })
})

test("'dlx' rejects a dead message, and a guard without a place for dead letters acks it", async () => {
  const dlx = setUp({ deadLetter: 'dlx' })
  await settled(dlx, { kind: 'dead-letter', reason: 'fatal' })
  expect(dlx.connection.settled()).toEqual([['nack', 1, false, false]])
  const record = setUp({ deadLetter: undefined })
  await settled(record, { kind: 'dead-letter', reason: 'fatal' })
  expect(record.connection.settled()).toEqual([['ack', 1, false]])
})

const lost = ['lease-lost', 'deadline', 'commit-unknown'] as const

test.each(lost)(
  'a message that is abandoned for %s is claimed again a little later',
  async (reason) => {
    const kit = setUp()
    await settled(kit, { kind: 'abandon', reason })
    expect(kit.connection.calls).toEqual([])
    await kit.clock.advance(1_500)
    expect(kit.handed).toHaveLength(2)
  },
)

// Red when the settlement goes to the closed channel, or to another one instead.
test('a settlement is dropped if its channel has closed meanwhile', async () => {
  const kit = setUp()
  kit.channel.deliver('a', 'b')
  await kit.clock.advance(0)
  kit.channel.emit('close')
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  kit.handed[1]?.settle({ kind: 'defer', reason: 'failed', until: kit.until(60_000) })
  await kit.clock.advance(60_000)
  expect(kit.connection.settled()).toEqual([])
  expect(kit.connection.published()).toEqual([])
  expect(kit.handed).toHaveLength(2)
})
