import { expect, test } from 'vitest'
import type { DeliveryChannel } from './clients/amqplib.ts'
import { consuming } from './fixtures/consuming.ts'
import { type Receiving, receiving } from './fixtures/receiving.ts'
import { message, type RecordingConnection } from './fixtures/recording-channel.ts'

const ack = { kind: 'ack', by: 'processed' } as const

/** Prefetches and cancelled tags, in order. */
const consumers = (connection: RecordingConnection): readonly unknown[] =>
  connection.named('prefetch', 'cancel').map(({ args }) => args[0])

async function withPrefetches(kit: Receiving, ...prefetches: readonly number[]): Promise<void> {
  kit.world.prefetches = prefetches
  kit.receiver.pump()
  await kit.clock.advance(0)
}

// Red with a fixed prefetch: what cannot start soon is kept from consumers that have nothing to do.
test('trap B6: at first as many messages are prefetched as can run, and half as many again when they are quick', async () => {
  const { connection, clock, state } = await consuming({}, { concurrency: 4 })
  expect(consumers(connection)).toEqual([4])
  state.decide = () => ack
  connection.consuming.deliver('a')
  await clock.advance(0)
  expect(consumers(connection)).toEqual([4, 2])
  connection.consuming.deliver('b')
  await clock.advance(0)
  expect(consumers(connection)).toEqual([4, 2])
})

test('trap B6: with slow handlers every received message runs', async () => {
  const { connection, clock, handed } = await consuming({}, { concurrency: 2 })
  for (let round = 0; round < 5; round += 1) {
    connection.consuming.deliver('a')
    await clock.advance(60_000)
    handed.at(-1)?.settle(ack)
    await clock.advance(0)
  }
  expect(consumers(connection)).toEqual([2])
})

// Red when the consumer begins anew for another prefetch: slots are idle meanwhile, and messages on the way go back.
test('trap B6: when messages become slow the reserve ends, and the first consumer stays', async () => {
  const { connection, clock, handed, state } = await consuming({}, { concurrency: 2 })
  state.decide = () => ack
  connection.consuming.deliver('a')
  await clock.advance(0)
  state.decide = undefined
  for (const key of ['b', 'c']) {
    connection.consuming.deliver(key)
    await clock.advance(2_000)
    handed.at(-1)?.settle(ack)
    await clock.advance(0)
  }
  expect(consumers(connection)).toEqual([2, 1, 'tag-2'])
})

test.each([
  ['a prefetch of its user', { prefetch: 9 }, 9],
  ['exclusive use of the queue', { consumer: { exclusive: true } }, 20],
])('%s is not changed with the pace', async (_what, options, expected) => {
  const { connection, clock, state } = await consuming(options, { concurrency: 2 })
  state.decide = () => ack
  connection.consuming.deliver('a')
  await clock.advance(0)
  expect(consumers(connection)).toEqual([expected])
})

test('a queue with a single active consumer gets one consumer, with the whole prefetch', async () => {
  const kit = receiving({ prefetch: 20 })
  kit.world.isSingleActive = true
  kit.world.prefetches = [2]
  await kit.started()
  await withPrefetches(kit, 2, 1)
  expect(consumers(kit.world.connection)).toEqual([20])
})

// Red when held messages do not count: the only slot is idle for as long as the message is held.
test('a held message leaves its slot to another one', async () => {
  const { connection, clock, handed, until } = await consuming({}, { concurrency: 1 })
  connection.consuming.deliver('a')
  await clock.advance(60_000)
  handed[0]?.settle({ kind: 'defer', reason: 'failed', until: until(3_000) })
  await clock.advance(0)
  expect(consumers(connection)).toEqual([1, 1])
  await clock.advance(3_000)
  handed[1]?.settle(ack)
  await clock.advance(0)
  expect(consumers(connection)).toEqual([1, 1, 'tag-2'])
})

// Red when it does not count: the only slot is idle until the broker confirms, which an alarm may delay for minutes.
test('a message that waits for a confirm leaves its slot to another one', async () => {
  const { connection, clock, handed, until } = await consuming({}, { concurrency: 1 })
  connection.answers.set('publish', () => 'no confirm')
  connection.consuming.deliver('a')
  await clock.advance(10_000)
  handed[0]?.settle({ kind: 'defer', reason: 'failed', until: until(60_000) })
  await clock.advance(0)
  expect(consumers(connection)).toEqual([1, 1])
})

test('messages that wait for their order make room for others, if they are quick', async () => {
  const { connection, clock, handed } = await consuming({}, { concurrency: 4 })
  const deliver = async (...tags: readonly number[]): Promise<void> => {
    const headers = { 'x-order-key': 'a' }
    for (const deliveryTag of tags) {
      connection.consuming.callback?.(message(`k-${deliveryTag}`, { deliveryTag }, { headers }))
    }
    await clock.advance(0)
  }
  await deliver(1)
  await deliver(2, 3, 4)
  await clock.advance(10)
  expect(consumers(connection)).toEqual([4])
  handed[0]?.settle(ack)
  await clock.advance(0)
  expect(consumers(connection)).toEqual([4, 2, 2])
})

test('a guard of batches prefetches one batch at first, and at most two', async () => {
  const guard = { concurrency: 1, transaction: 'batch' } as const
  const { connection, clock, state } = await consuming({ batch: { size: 10 } }, guard)
  state.decide = () => ack
  expect(consumers(connection)).toEqual([10])
  connection.consuming.deliver(...Array.from({ length: 10 }, (_, n) => `k-${n}`))
  await clock.advance(10)
  expect(consumers(connection)).toEqual([10, 10])
})

test('consumers are added and cancelled one after the other, the latest first', async () => {
  const kit = receiving({ consumer: { priority: 3, consumerTag: 'mine' } })
  kit.world.prefetches = [4, 2]
  await kit.started()
  const { connection } = kit.world
  expect(connection.named('consume').map(({ args }) => args[1])).toEqual([
    { priority: 3, consumerTag: 'mine', noAck: false },
    { priority: 3, noAck: false },
  ])
  await withPrefetches(kit, 4, 2, 2, 2)
  await withPrefetches(kit, 4, 2)
  await withPrefetches(kit, 4, 2)
  expect(consumers(connection)).toEqual([4, 2, 2, 2, 'tag-4', 'tag-3'])
  await kit.receiver.stop()
  expect(consumers(connection).slice(6)).toEqual(['tag-1', 'tag-2'])
})

// Red when its other consumers stay: they bring messages beside those of the next channel.
test('when the server cancels one of the consumers the others of its channel are cancelled', async () => {
  const kit = receiving()
  kit.world.prefetches = [4, 2]
  await kit.started()
  const [channel] = kit.world.connection.channels
  channel?.deliver('a')
  channel?.callback?.(null)
  await kit.clock.advance(0)
  expect(consumers(kit.world.connection)).toEqual([4, 2, 'tag-1'])
  await kit.clock.advance(1_000)
  expect(consumers(kit.world.connection).slice(3)).toEqual([4, 2])
  const [deliveries] = kit.channels as [DeliveryChannel]
  expect(deliveries.isOpen).toBe(true)
})

// Red when it stays: it brings messages on a channel that is only there until its messages are settled.
test('a consumer that begins while the server cancels another one is cancelled', async () => {
  const kit = receiving()
  kit.world.prefetches = [4]
  await kit.started()
  const { connection } = kit.world
  const [channel] = connection.channels
  const first = channel?.callback
  channel?.deliver('a')
  const begun = Promise.withResolvers<void>()
  connection.answers.set('consume', () => begun.promise)
  await withPrefetches(kit, 4, 2)
  first?.(null)
  begun.resolve()
  await kit.clock.advance(0)
  expect(consumers(connection)).toEqual([4, 2, 'tag-2'])
})

const CONSUMER_TIMEOUT_MS = 1_800_000

// Red when only the running message is watched: the server closes the channel with all messages in hand.
test.each([
  ['a short deadline', 30_000],
  ['a long deadline', 1_600_000],
  ['the longest deadline', CONSUMER_TIMEOUT_MS - 120_000],
])(
  'trap A6: what waited too long for a handler with %s is given back in time',
  async (_what, deadlineMs) => {
    const { connection, clock, handed } = await consuming(
      { prefetch: 5 },
      { concurrency: 1, deadlineMs },
    )
    connection.consuming.deliver('a', 'b', 'c')
    const inTimeMs = Math.max(60_000, CONSUMER_TIMEOUT_MS - 120_000 - deadlineMs)
    await clock.advance(inTimeMs - 15_000)
    expect(connection.settled()).toEqual([])
    await clock.advance(31_000)
    expect(connection.settled()).toEqual([
      ['nack', 2, false, true],
      ['nack', 3, false, true],
    ])
    expect(handed).toHaveLength(1)
    // They come again, and the running one is settled as ever.
    connection.consuming.deliver('b')
    handed[0]?.settle(ack)
    await clock.advance(0)
    expect(handed).toHaveLength(2)
    expect(connection.settled().slice(2)).toEqual([['ack', 1, false]])
    handed[1]?.settle(ack)
    await clock.advance(0)
    expect(clock.timers).toBe(0)
  },
)
