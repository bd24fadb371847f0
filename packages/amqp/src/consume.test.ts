import { ConfigurationError, type Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeAmqp } from './consume.ts'
import { consuming } from './fixtures/consuming.ts'
import { message, RecordingConnection } from './fixtures/recording-channel.ts'

const queue = 'orders'
const ack: Settlement = { kind: 'ack', by: 'processed' }
const closing: Settlement = { kind: 'abandon', reason: 'closing' }

test('the consumer uses its own channel, with the prefetch and never with noAck', async () => {
  const { connection, consumption } = await consuming({ prefetch: 7, consumer: { priority: 3 } })
  expect(connection.named('prefetch')).toEqual([{ name: 'prefetch', args: [7] }])
  expect(connection.named('consume')).toEqual([
    { name: 'consume', args: [queue, { priority: 3, noAck: false }] },
  ])
  expect(connection.named('createConfirmChannel')).toEqual([])
  expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 0 })
})

test('messages of one turn of the event loop go into one call of the guard, up to the free slots', async () => {
  const { connection, clock, batches, handed } = await consuming()
  connection.consuming.deliver('a', 'b', 'c', 'd', 'e')
  await clock.advance(0)
  expect(batches).toEqual([4])
  handed[0]?.settle(ack)
  await clock.advance(0)
  expect(batches).toEqual([4, 1])
})

// Red when order keys are left to the guard alone: two calls of the guard do not know each other's messages.

test('messages with the same order key never run in two calls at once', async () => {
  const { connection, clock, handed } = await consuming()
  const ordered = (key: string, deliveryTag: number) =>
    connection.consuming.callback?.(
      message(key, { deliveryTag }, { headers: { 'x-order-key': 'customer' } }),
    )
  ordered('a', 1)
  await clock.advance(0)
  ordered('b', 2)
  connection.consuming.callback?.(message('c', { deliveryTag: 3 }))
  await clock.advance(0)
  const keys = () => handed.map(({ delivery }) => JSON.parse(String(delivery.body)).key)
  expect(keys()).toEqual(['a', 'c'])
  handed[0]?.settle(ack)
  await clock.advance(0)
  expect(keys()).toEqual(['a', 'c', 'b'])
})

// Red when slots are filled one by one: two calls of the guard do not know each other's lanes.
test('a guard with its own ordering keys gets one call at a time, with all messages in hand', async () => {
  const { connection, clock, handed, batches } = await consuming({}, { lanesAreUsers: true })
  connection.consuming.deliver('a', 'b', 'c', 'd', 'e')
  await clock.advance(0)
  connection.consuming.deliver('f', 'g')
  await clock.advance(0)
  expect(batches).toEqual([5])
  for (const each of handed.slice(0, 4)) each.settle(ack)
  await clock.advance(0)
  expect(batches).toEqual([5])
  handed[4]?.settle(ack)
  await clock.advance(0)
  expect(batches).toEqual([5, 2])
})

test('the start waits only a limited time for a connection that recovers by itself', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  const there = Promise.withResolvers<unknown>()
  const create = connection.createChannel.bind(connection)
  connection.createChannel = async () => {
    await there.promise
    return create()
  }
  const starting = consumeAmqp(connection.connection, made.guard, { queue })
  await made.clock.advance(45_000)
  const consumption = await starting
  expect(consumption.health()).toMatchObject({ state: 'recovering' })
  there.resolve(undefined)
  await made.clock.advance(0)
  expect(consumption.health()).toMatchObject({ state: 'running' })
})

// Red when every 404 means that the queue does not exist: the start is refused.
test('a queue whose node is down is waited for', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  const why = `NOT_FOUND - home node 'rabbit@b' of durable queue '${queue}' in vhost '/' is down or inaccessible`
  connection.answers.set('checkQueue', () => {
    throw Object.assign(new Error(why), { code: 404 })
  })
  const consumption = await consumeAmqp(async () => connection.connection, made.guard, { queue })
  const reason = expect.stringContaining('is down or inaccessible')
  expect(consumption.health()).toMatchObject({ state: 'recovering', reason })
  connection.answers.delete('checkQueue')
  await made.clock.advance(1_000)
  expect(consumption.health()).toMatchObject({ state: 'running' })
  await consumption.drain()
})

test('a connection that opens after the consumer has stopped is closed', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  const late = Promise.withResolvers<never>()
  const starting = consumeAmqp(() => late.promise, made.guard, { queue })
  await made.clock.advance(30_000)
  const consumption = await starting
  await consumption.drain()
  late.resolve(connection.connection as never)
  await made.clock.advance(0)
  expect(connection.named('connection.close')).toHaveLength(1)
  expect(connection.named('consume')).toEqual([])
})

test('health counts settlements that did not reach the broker', async () => {
  const { connection, consumption, clock, handed } = await consuming()
  connection.consuming.deliver('a', 'b')
  await clock.advance(0)
  handed[0]?.settle(ack)
  await clock.advance(0)
  expect(consumption.health().settleFailures).toBe(0)
  connection.consuming.emit('close')
  handed[1]?.settle(ack)
  await clock.advance(0)
  expect(consumption.health().settleFailures).toBe(1)
})

test('closing the guard stops its consumer, without a hot loop', async () => {
  const { consumption, connection, clock, state } = await consuming()
  state.decide = () => closing
  connection.consuming.deliver('a')
  await clock.advance(0)
  await consumption.stopped
  const names = connection.named('cancel', 'nack').map(({ name }) => name)
  expect(names).toEqual(['cancel', 'nack'])
})

test("dead letters are published for the guard's poller", async () => {
  const { consumption, publishers } = await consuming({ deadLetter: { queue: 'orders.dead' } })
  expect([...publishers.keys()]).toEqual([queue])
  await consumption.drain()
  expect([...publishers.keys()]).toEqual([])
  const rejecting = await consuming({ deadLetter: 'dlx' })
  expect([...rejecting.publishers.keys()]).toEqual([])
  await rejecting.consumption.drain()
})

test('invalid options and unusable stores make the start fail', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  const source = async () => connection.connection
  await expect(consumeAmqp(source, made.guard, { queue: '' })).rejects.toThrow('`queue`')
  made.state.open = () => Promise.reject(new ConfigurationError('no tables'))
  await expect(consumeAmqp(source, made.guard, { queue })).rejects.toThrow('no tables')
  expect(connection.calls).toEqual([])
  expect(made.clock.timers).toBe(0)
  expect([...made.publishers]).toEqual([])
})
