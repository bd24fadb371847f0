import { expect, test } from 'vitest'
import type { DeliveryChannel } from './clients/amqplib.ts'
import { consuming } from './fixtures/consuming.ts'
import { type Receiving, receiving } from './fixtures/receiving.ts'
import { message } from './fixtures/recording-channel.ts'

const ack = { kind: 'ack', by: 'processed' } as const

const prefetches = ({ world: { connection } }: Receiving): readonly unknown[] =>
  connection.named('prefetch').map(({ args }) => args[0])

async function withWindow(kit: Receiving, window: number): Promise<void> {
  kit.world.window = window
  kit.receiver.pump()
  await kit.clock.advance(0)
}

// Red with a fixed prefetch: what cannot start soon is kept from consumers that have nothing to do.
test('trap B6: at first as many messages are prefetched as can run, then as many as the pace allows', async () => {
  const { connection, clock, state } = await consuming({}, { concurrency: 2 })
  const last = () => connection.named('prefetch').at(-1)?.args[0]
  expect(last()).toBe(2)
  state.decide = () => ack
  connection.consuming.deliver('a')
  await clock.advance(0)
  // One message is not settled yet when the prefetch changes.
  expect(last()).toBe(20)
})

test('trap B6: handlers that take long leave nothing in hand that does not run', async () => {
  const { connection, clock, handed } = await consuming({}, { concurrency: 2 })
  for (let round = 0; round < 5; round += 1) {
    connection.consuming.deliver('a')
    await clock.advance(60_000)
    handed.at(-1)?.settle(ack)
    await clock.advance(0)
  }
  expect(connection.named('prefetch').map(({ args }) => args[0])).toEqual([2])
  expect(connection.named('consume', 'cancel').map(({ name }) => name)).toEqual(['consume'])
})

test.each([
  ['a prefetch of its user', { prefetch: 9 }, false, 9],
  ['exclusive use of the queue', { consumer: { exclusive: true } }, false, 20],
  ['a queue with a single active consumer', { prefetch: 20 }, true, 20],
])('%s is not changed with the pace', async (_what, options, isSingleActive, expected) => {
  const kit = receiving(options)
  kit.world.isSingleActive = isSingleActive
  kit.world.window = expected
  await kit.started()
  if (isSingleActive) await withWindow(kit, 1)
  expect(prefetches(kit)).toEqual([expected])
  expect(kit.calls).not.toContain('cancel')
})

test('an outage of the store, or an event in progress elsewhere, says nothing about the pace', async () => {
  const { connection, clock, state, until } = await consuming({}, { concurrency: 2 })
  for (const reason of ['store-down', 'in-progress', 'not-due'] as const) {
    state.decide = () => ({ kind: 'defer', reason, until: until(60_000) })
    connection.consuming.deliver('a')
    await clock.advance(0)
  }
  expect(connection.named('prefetch').map(({ args }) => args[0])).toEqual([2])
})

test('a guard of batches prefetches one batch at first, and at most two', async () => {
  const guard = { concurrency: 1, transaction: 'batch' } as const
  const { connection, clock, state } = await consuming({ batch: { size: 10 } }, guard)
  state.decide = () => ack
  expect(connection.named('prefetch').at(-1)?.args).toEqual([10])
  connection.consuming.deliver(...Array.from({ length: 10 }, (_, n) => `k-${n}`))
  await clock.advance(10)
  expect(connection.named('prefetch').at(-1)?.args).toEqual([20])
})

test('the consumer begins anew when its prefetch should be twice or half of what it is', async () => {
  const kit = receiving()
  kit.world.window = 4
  await kit.started()
  for (const window of [5, 7, 3]) await withWindow(kit, window)
  expect(prefetches(kit)).toEqual([4])
  await withWindow(kit, 8)
  await withWindow(kit, 4)
  await withWindow(kit, 1)
  expect(prefetches(kit)).toEqual([4, 8, 4, 1])
  expect(kit.calls.slice(-3)).toEqual(['cancel', 'prefetch', 'consume'])
})

// Red when the new consumer gets the whole prefetch: the broker counts only its own messages.
test('messages of the consumer before count for the prefetch until they are settled', async () => {
  const kit = receiving()
  kit.world.window = 4
  await kit.started()
  const { connection } = kit.world
  connection.consuming.deliver('a', 'b', 'c', 'd')
  await withWindow(kit, 10)
  expect(prefetches(kit)).toEqual([4, 6])
  // All are settled, and six are not much less than ten.
  const [deliveries] = kit.channels as [DeliveryChannel]
  for (const deliveryTag of [1, 2, 3]) deliveries.ack(message('a', { deliveryTag }))
  kit.receiver.settled(deliveries)
  await kit.clock.advance(0)
  expect(prefetches(kit)).toEqual([4, 6])
  // More are in hand than may be: one is always asked for, so that the consumer stays.
  await withWindow(kit, 1)
  expect(prefetches(kit)).toEqual([4, 6, 1])
  deliveries.ack(message('d', { deliveryTag: 4 }))
  await withWindow(kit, 2)
  expect(prefetches(kit)).toEqual([4, 6, 1, 2])
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
