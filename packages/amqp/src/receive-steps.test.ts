import { expect, test } from 'vitest'
import type { DeliveryChannel } from './clients/amqplib.ts'
import { type Receiving, receiving } from './fixtures/receiving.ts'
import { message } from './fixtures/recording-channel.ts'

/** The calls made meanwhile. */
async function during(kit: Receiving, what: () => unknown, ms = 0): Promise<readonly string[]> {
  const { length } = kit.calls
  await what()
  await kit.clock.advance(ms)
  return kit.calls.slice(length)
}

const hang = () => new Promise<never>(() => undefined)

test('a consumer that the server cancels keeps its channel until its messages are settled', async () => {
  const kit = await receiving().started()
  const [channel] = kit.world.connection.channels
  channel?.deliver('a', 'b')
  expect(kit.calls.slice(-2)).toEqual(['take', 'take'])
  expect(await during(kit, () => channel?.callback?.(null))).toEqual([])
  expect(kit.receiver.outage?.reason).toMatch(/cancelled by the server/)
  const [deliveries] = kit.channels as [DeliveryChannel]
  deliveries.ack(message('a', { deliveryTag: 1 }))
  expect(await during(kit, () => kit.receiver.settled(deliveries))).toEqual(['ack'])
  expect(await during(kit, () => undefined, 1_000)).toEqual([
    ...['connect', 'check', 'createChannel', 'prefetch', 'consume'],
  ])
  // Another channel has settled all its messages, which does not affect this one.
  kit.world.connection.channels[1]?.deliver('c')
  const other = kit.channels.at(-1) as DeliveryChannel
  other.ack(message('c', { deliveryTag: 1 }))
  expect(await during(kit, () => kit.receiver.settled(other))).toEqual(['ack'])
  deliveries.ack(message('b', { deliveryTag: 2 }))
  expect(await during(kit, () => kit.receiver.settled(deliveries))).toEqual(['ack', 'close'])
  // The channel is not used again.
  expect(await during(kit, () => channel?.emit('close'))).toEqual(['drop'])
  expect(await during(kit, () => channel?.callback?.(null))).toEqual([])
  expect(kit.receiver.outage).toBeUndefined()
})

test('a consumer that is cancelled with no message in hand closes its channel at once', async () => {
  const kit = await receiving().started()
  const [channel] = kit.world.connection.channels
  expect(await during(kit, () => channel?.callback?.(null))).toEqual(['close'])
})

test('channels that wait for settlements are closed at the end', async () => {
  const kit = await receiving().started()
  kit.world.connection.consuming.deliver('a')
  kit.world.connection.consuming.callback?.(null)
  await kit.clock.advance(1_000)
  expect(await during(kit, () => kit.receiver.stop())).toEqual(['cancel'])
  expect(await during(kit, () => kit.receiver.finish())).toEqual(['close', 'close'])
})

// Red when the consumer is cancelled: a queue that expires without a consumer goes with its messages.
test('trap B4: during a store outage the consumer stays, and the store is checked every second', async () => {
  const kit = await receiving().started()
  kit.down(1_500)
  let looks = 0
  const { availability } = kit.port
  Object.assign(kit.port, {
    availability: () => {
      looks += 1
      return availability()
    },
  })
  expect(await during(kit, () => kit.receiver.pump())).toEqual([])
  expect(kit.receiver.outage).toEqual({ state: 'paused', reason: 'Error: store' })
  // Messages in hand probe the store, ten times a second once the retry time has come.
  looks = 0
  expect(await during(kit, () => undefined, 1_499)).toEqual([])
  expect(looks).toBe(2)
  expect(await during(kit, () => undefined, 1_001)).toEqual([])
  expect(looks).toBe(24)
  kit.state.availability = { kind: 'available' }
  expect(await during(kit, () => undefined, 100)).toEqual(['resume'])
  expect([kit.receiver.outage, kit.clock.timers]).toEqual([undefined, 0])
  // Nothing resumes after any other outage.
  expect(await during(kit, () => kit.world.connection.consuming.emit('close'), 1_000)).toEqual([
    ...['drop', 'connect', 'createChannel', 'prefetch', 'consume'],
  ])
})

test('a channel that is lost during a store outage is replaced, and its queue consumed again', async () => {
  const kit = await receiving().started()
  kit.down(60_000)
  await during(kit, () => kit.receiver.pump())
  expect(await during(kit, () => kit.world.connection.consuming.emit('close'), 2_000)).toEqual([
    ...['drop', 'connect', 'createChannel', 'prefetch', 'consume'],
  ])
  expect(kit.receiver.outage).toMatchObject({ state: 'paused' })
})

test('a healthy consumer is left alone', async () => {
  const kit = await receiving().started()
  expect(await during(kit, () => kit.receiver.pump())).toEqual([])
  kit.receiver.known({ kind: 'ack', by: 'processed' })
  expect(await during(kit, () => undefined)).toEqual([])
  expect(kit.ends).toEqual([])
})

test('one start step runs at a time', async () => {
  const kit = receiving()
  const opened = Promise.withResolvers<void>()
  kit.world.open = () => opened.promise
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  kit.receiver.pump()
  opened.resolve()
  await started
  expect(kit.calls).toEqual(['connect', 'check', 'createChannel', 'prefetch', 'consume'])
})

test('a delivery that cannot be converted is reported, because a throw would close the channel', async () => {
  const kit = await receiving().started()
  const error = new Error('no')
  kit.world.accept = () => {
    throw error
  }
  await kit.clock.advance(10)
  kit.world.connection.consuming.deliver('a')
  expect(kit.logged).toMatchObject([{ level: 'error', fields: { queue: 'orders', err: error } }])
  expect(kit.receiver.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
  await kit.clock.advance(10)
  kit.world.accept = () => undefined
  kit.world.connection.consuming.deliver('b')
  await kit.clock.advance(10)
  kit.receiver.settled(kit.channels[0] as DeliveryChannel)
  expect(kit.receiver.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
})

test('a closed guard stops its consumer, and no other abandoned event does', async () => {
  const kit = await receiving().started()
  kit.receiver.known({ kind: 'abandon', reason: 'lease-lost' })
  expect(kit.ends).toEqual([])
  kit.receiver.known({ kind: 'abandon', reason: 'closing' })
  expect(kit.ends).toEqual([{ kind: 'closed' }])
  await kit.receiver.stop()
  kit.receiver.known({ kind: 'abandon', reason: 'closing' })
  expect(kit.ends).toHaveLength(1)
})

test('a stop closes a channel that is being opened, and cancels a consumer that is being started', async () => {
  const kit = receiving()
  const opened = Promise.withResolvers<void>()
  let creating = 0
  kit.world.connection.answers.set('createChannel', () => {
    creating += 1
    return opened.promise
  })
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  await kit.receiver.stop()
  opened.resolve()
  await started
  expect([creating, kit.calls.slice(2)]).toEqual([1, ['createChannel', 'close']])
  const late = receiving()
  const consumed = Promise.withResolvers<void>()
  late.world.connection.answers.set('consume', () => consumed.promise)
  const starting = late.receiver.start()
  await late.clock.advance(0)
  await late.receiver.stop()
  expect(late.calls.at(-1)).toBe('consume')
  consumed.resolve()
  await starting
  expect(late.calls.at(-1)).toBe('cancel')
})

test('a stop ends in bounded time although the broker does not answer', async () => {
  const kit = await receiving().started()
  for (const name of ['cancel', 'close']) kit.world.connection.answers.set(name, hang)
  let steps = 0
  const stopped = kit.receiver.stop().then(() => {
    steps += 1
  })
  await kit.clock.advance(1_999)
  expect(steps).toBe(0)
  await kit.clock.advance(1)
  await stopped
  const finished = kit.receiver.finish()
  await kit.clock.advance(2_000)
  await finished
  expect(await during(kit, () => kit.world.connection.channels[0]?.emit('close'), 60_000)).toEqual([
    'drop',
  ])
  expect([kit.receiver.outage, kit.clock.timers]).toEqual([undefined, 0])
})

test('a stop ends a pause', async () => {
  const kit = await receiving().started()
  kit.world.connection.channels[0]?.emit('close')
  expect(kit.clock.timers).toBe(1)
  await kit.receiver.stop()
  expect(await during(kit, () => kit.receiver.pump(), 60_000)).toEqual([])
  expect(kit.clock.timers).toBe(0)
})
