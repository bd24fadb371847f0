import { proxy, type TcpProxy, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { type Channel, type ChannelModel, connect } from 'amqplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { amqpMessage, type Consumption, consumeAmqp } from './index.ts'

const kit = useRabbitmq()
let link: TcpProxy

beforeAll(async () => {
  const { hostname, port } = new URL(kit.url)
  link = await proxy({ host: hostname, port: Number(port) })
}, 200_000)
afterAll(async () => {
  await link.stop()
})

const LONG = { deadlineMs: 40_000 }
const keysOf = (count: number, prefix = 'k'): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix}-${n}`)

/** The URL through the proxy, which can be disturbed. */
function through(): string {
  const url = new URL(kit.url)
  url.host = `${link.host}:${link.port}`
  // Seconds: silence is detected after two.
  url.searchParams.set('heartbeat', '1')
  return url.href
}

/** Connections whose channels the test can reach. */
function watched(url: string) {
  const channels: Channel[] = []
  const open = async (): Promise<ChannelModel> => {
    const connection = await connect(url)
    const create = connection.createChannel.bind(connection)
    connection.createChannel = async (options) => {
      const channel = await create(options)
      channels.push(channel)
      return channel
    }
    return connection
  }
  return { channels, open }
}

/** A guard whose handlers for keys `held-…` wait for the gate. */
function gated() {
  const gate = Promise.withResolvers<void>()
  const effects: string[] = []
  const state = { waiting: 0 }
  const guard = guardOf(
    async (event) => {
      if (event.key.startsWith('held')) {
        state.waiting += 1
        await gate.promise
      }
      effects.push(event.key)
    },
    { leaseMs: 10_000 },
  )
  return { gate, effects, state, guard }
}

async function isEmpty(queue: string, consumption: Consumption): Promise<boolean> {
  return (await kit.broker.ready(queue)) === 0 && consumption.health().inFlight === 0
}

// Red when the channel's end is not noticed: amqplib says nothing to the consume callback.
test('trap A1: the consumer recovers from a double ack, which closes its channel, with no event lost or doubled', async () => {
  const queue = await kit.broker.create()
  const { channels, open } = watched(kit.url)
  const { gate, effects, state, guard } = gated()
  await using consumption = await consumeAmqp(open, guard, { queue })
  await kit.broker.send(queue, ['held-1', 'held-2'])
  await until(() => state.waiting === 2)
  const consuming = channels.at(-1)
  consuming?.ack({ fields: { deliveryTag: 99 } } as never)
  await until(() => consumption.health().state === 'recovering')
  expect(consumption.health().reason).toContain('406')
  await until(() => consumption.health().state === 'running', LONG)
  gate.resolve()
  await kit.broker.send(queue, keysOf(20))
  await until(async () => effects.length === 22 && isEmpty(queue, consumption), LONG)
  // The settlements of the closed channel were dropped, never sent on another one.
  expect(consumption.health().settleFailures).toBe(2)
  await consumption.drain()
  expect(await kit.broker.ready(queue)).toBe(0)
  expect(effects.toSorted()).toEqual(['held-1', 'held-2', ...keysOf(20)].toSorted())
})

// Red when null is treated as a message, or ignored.
test('trap A5: a deleted queue cancels the consumer, and the consumer returns when the queue does', async () => {
  const queue = await kit.broker.create()
  const { effects, guard } = gated()
  await using consumption = await consumeAmqp(() => connect(kit.url), guard, {
    queue,
  })
  await kit.broker.channel.deleteQueue(queue)
  await until(() => consumption.health().state === 'recovering')
  expect(consumption.health().reason).toMatch(/cancelled by the server|does not exist/)
  await until(() => consumption.health().reason?.includes('does not exist') === true, LONG)
  await kit.broker.channel.assertQueue(queue, { durable: true })
  await kit.broker.send(queue, ['after'])
  await until(() => effects.length === 1, LONG)
  await until(() => consumption.health().state === 'running')
})

// Red when only the first queue is examined: the delay queues drop what the full queue refuses.
test('trap B3: a queue that comes back with x-overflow reject-publish is consumed once its delay queues fit', async () => {
  const queue = await kit.broker.create()
  const { effects, guard } = gated()
  await using consumption = await consumeAmqp(() => connect(kit.url), guard, {
    ...{ queue, retryLevelsMs: [100] },
  })
  await kit.broker.channel.deleteQueue(queue)
  const refusing = { 'x-max-length': 10, 'x-overflow': 'reject-publish' }
  await kit.broker.channel.assertQueue(queue, { durable: true, arguments: refusing })
  await kit.broker.send(queue, ['after'])
  await until(() => /The delay queue .* exists with/.test(consumption.health().reason ?? ''), LONG)
  await kit.broker.channel.deleteQueue(`${queue}.retry.100`)
  await until(() => effects.length === 1, LONG)
})

test('unsettled messages are settled on their own channel after their consumer was cancelled', async () => {
  const queue = await kit.broker.create()
  const { gate, effects, state, guard } = gated()
  const { channels, open } = watched(kit.url)
  await using consumption = await consumeAmqp(open, guard, { queue })
  await kit.broker.send(queue, ['held-1'])
  await until(() => state.waiting === 1)
  const first = channels.at(-1)
  // The server does the same when a consumer times out: the channel stays open.
  first?.emit('cancel', { consumerTag: [...Reflect.get(first, 'consumers').keys()][0] })
  await until(() => channels.at(-1) !== first && consumption.health().state === 'running', LONG)
  gate.resolve()
  await until(async () => effects.length === 1 && isEmpty(queue, consumption))
  expect(consumption.health().settleFailures).toBe(0)
})

test('the function opens a connection again that was cut; running handlers finish and their settlements are dropped', async () => {
  const queue = await kit.broker.create('quorum')
  const { gate, effects, state, guard } = gated()
  await using consumption = await consumeAmqp(() => connect(through()), guard, { queue })
  await kit.broker.send(queue, ['held-1', 'held-2', ...keysOf(50)])
  await until(() => state.waiting === 2 && effects.length === 50)
  link.cut()
  await until(() => consumption.health().state === 'recovering')
  await kit.broker.send(queue, keysOf(20, 'during'))
  gate.resolve()
  await until(async () => effects.length === 72 && isEmpty(queue, consumption), LONG)
  await consumption.drain()
  expect(await kit.broker.ready(queue)).toBe(0)
  expect(new Set(effects).size).toBe(72)
})

// Red without heartbeats: the silence is not detected.
test('the consumer detects a silent network, without an error of the socket', async () => {
  const queue = await kit.broker.create()
  const { effects, guard } = gated()
  await using consumption = await consumeAmqp(() => connect(through()), guard, { queue })
  link.pause()
  await until(() => consumption.health().state === 'recovering', LONG)
  link.cut()
  link.resume()
  await kit.broker.send(queue, ['after'])
  await until(() => effects.length === 1, LONG)
})

test('a connection of the user that closes stops the consumer with an error that says what to do', async () => {
  const queue = await kit.broker.create()
  const connection = await connect(kit.url)
  const { guard } = gated()
  const consumption = await consumeAmqp(connection, guard, { queue })
  const stopped = expect(consumption.stopped).rejects.toThrow(/Give a function/)
  await connection.close()
  await stopped
  expect(consumption.health().state).toBe('stopped')
  await expect(consumeAmqp(connection, guard, { queue })).rejects.toThrow(/Give a function/)
})

test('a connection of the user stays open after a drain, without our listeners', async () => {
  const queue = await kit.broker.create()
  const connection = await connect(kit.url)
  const before = connection.eventNames().map((name) => [name, connection.listenerCount(name)])
  const { effects, guard } = gated()
  const consumption = await consumeAmqp(connection, guard, { queue })
  await kit.broker.send(queue, keysOf(5))
  await until(() => effects.length === 5)
  await consumption.drain()
  expect(connection.eventNames().map((name) => [name, connection.listenerCount(name)])).toEqual(
    before,
  )
  expect(await kit.broker.consumers(queue)).toBe(0)
  const channel = await connection.createChannel()
  await channel.close()
  await connection.close()
})

test('trap A12: the consumer follows the recovery of amqplib and creates its channel and consumer again', async () => {
  const queue = await kit.broker.create()
  const connection = await connect(through(), { recovery: { initialDelay: 50, maxDelay: 500 } })
  connection.on('error', () => undefined)
  const { effects, guard } = gated()
  await using consumption = await consumeAmqp(connection, guard, { queue })
  for (const round of [1, 2]) {
    link.cut()
    await until(() => consumption.health().state === 'recovering')
    await kit.broker.send(queue, [`after-${round}`])
    await until(() => effects.length === round, LONG)
  }
  await consumption.drain()
  await connection.close()
})

test('a connection with the recovery of amqplib is not used again after its owner closed it', async () => {
  const queue = await kit.broker.create()
  const connection = await connect(kit.url, { recovery: true })
  await connection.close()
  const { guard } = gated()
  await expect(consumeAmqp(connection, guard, { queue })).rejects.toThrow(/Give a function/)
})

test('the consumer waits for an endpoint that is down at the start', async () => {
  const queue = await kit.broker.create()
  const { effects, guard } = gated()
  link.refuse(true)
  await using consumption = await consumeAmqp(() => connect(through()), guard, { queue })
  expect(consumption.health()).toMatchObject({ state: 'recovering', inFlight: 0 })
  await kit.broker.send(queue, ['after'])
  link.refuse(false)
  await until(() => effects.length === 1, LONG)
  expect(consumption.health().state).toBe('running')
})

test('a drain during an outage ends, and nothing reconnects when the endpoint is back', async () => {
  const queue = await kit.broker.create()
  const { guard } = gated()
  const consumption = await consumeAmqp(() => connect(through()), guard, { queue })
  link.refuse(true)
  link.cut()
  await until(() => consumption.health().state === 'recovering')
  await consumption.drain()
  link.refuse(false)
  expect(consumption.health().state).toBe('stopped')
  await until(() => link.connections === 0)
})

test('the handler gets the message of the client', async () => {
  const queue = await kit.broker.create()
  const tags: unknown[] = []
  const guard = guardOf((event) => void tags.push(amqpMessage(event)?.fields.routingKey))
  await using _ = await consumeAmqp(() => connect(kit.url), guard, { queue })
  await kit.broker.send(queue, ['once'])
  await until(() => tags.length === 1)
  expect(tags).toEqual([queue])
})
