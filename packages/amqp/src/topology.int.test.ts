import { ConfigurationError } from '@onceward/core'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { type ChannelModel, connect } from 'amqplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { areThere } from './clients/delay-queues.ts'
import { describeQueue } from './clients/queue-shape.ts'
import type { QueueType } from './fixtures/broker.ts'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { assertRetryTopology, type ConsumeAmqpOptions, consumeAmqp } from './index.ts'

const kit = useRabbitmq()
let connection: ChannelModel

beforeAll(async () => {
  connection = await connect(kit.url)
  connection.on('error', () => undefined)
}, 200_000)
afterAll(async () => {
  await connection.close()
})

const guard = guardOf(() => undefined)
const TYPES: readonly QueueType[] = ['classic', 'quorum']
const shapeOf = (queue: string) => describeQueue(() => connection.createChannel(), queue)

async function refusal(options: ConsumeAmqpOptions): Promise<string> {
  const error: unknown = await consumeAmqp(kit.open, guard, options).then(
    (consumption) => consumption.drain(),
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ConfigurationError)
  return (error as Error).message
}

test.each(TYPES)(
  'delay queues and the dead-letter queue of a %s queue have its type',
  async (type) => {
    const queue = await kit.broker.create(type)
    const channel = await connection.createChannel()
    const names = [`${queue}.retry.100`, `${queue}.retry.5000`]
    expect(await assertRetryTopology(channel, queue, [100, 5_000])).toEqual(names)
    expect(await assertRetryTopology(connection, queue, [100, 5_000])).toEqual(names)
    expect(await shapeOf(`${queue}.retry.100`)).toMatchObject({
      durable: true,
      arguments: {
        'x-message-ttl': 100,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': queue,
      },
    })
    const types = [`${queue}.retry.100`, `${queue}.dead`].map(async (name) => {
      const shape = await shapeOf(name)
      return typeof shape === 'object' ? shape.arguments['x-queue-type'] : shape
    })
    expect(await Promise.all(types)).toEqual([type, type])
    // The caller's channel is unchanged.
    await channel.checkQueue(queue)
    await channel.close()
    await kit.broker.send(`${queue}.retry.100`, ['round-trip'])
    await until(async () => (await kit.broker.ready(queue)) === 1)
  },
)

test('an existing dead-letter queue stays as it is', async () => {
  const queue = await kit.broker.create('quorum')
  await kit.broker.channel.assertQueue(`${queue}.dead`, { durable: true, maxLength: 7 })
  await assertRetryTopology(connection, queue, [100])
  expect(await shapeOf(`${queue}.dead`)).toMatchObject({ arguments: { 'x-max-length': 7 } })
})

test('the error names exactly the argument of a delay queue that differs', async () => {
  const queue = await kit.broker.create()
  await kit.broker.channel.assertQueue(`${queue}.retry.1000`, {
    durable: true,
    messageTtl: 2_000,
    deadLetterExchange: '',
    deadLetterRoutingKey: queue,
  })
  const expected = `'${queue}.retry.1000' exists with x-message-ttl '2000' instead of '1000'. Delete it`
  await expect(assertRetryTopology(connection, queue, [1_000])).rejects.toThrow(expected)
  expect(await refusal({ queue })).toContain(expected)
})

test('a delay queue of the other type, or with extra limits, is accepted', async () => {
  const queue = await kit.broker.create('quorum')
  await kit.broker.channel.assertQueue(`${queue}.retry.100`, {
    durable: true,
    messageTtl: 100,
    deadLetterExchange: '',
    deadLetterRoutingKey: queue,
    maxLength: 1_000,
  })
  await assertRetryTopology(connection, queue, [100])
  await using consumption = await consumeAmqp(kit.open, guard, { queue, retryLevelsMs: [100] })
  expect(consumption.health().state).toBe('running')
})

test('a queue that does not exist is refused', async () => {
  await expect(assertRetryTopology(connection, 'nowhere', [1_000])).rejects.toThrow(
    /Declare it first/,
  )
  await expect(assertRetryTopology(connection, 'nowhere', [])).rejects.toThrow(/`levels`/)
})

test('trap T22: a quorum queue that would drop messages is refused', async () => {
  const queue = await kit.broker.create('quorum', { 'x-delivery-limit': 3 })
  expect(await refusal({ queue })).toMatch(/x-delivery-limit 3 and no x-dead-letter-exchange/)
  await using consumption = await consumeAmqp(kit.open, guard, { queue, deadLetterPolicy: true })
  expect(consumption.health().state).toBe('running')
})

test('streams, auto-delete and exclusive queues are refused', async () => {
  const name = (kind: string) => `${kind}-${performance.now()}`
  const [stream, fleeting, own] = [name('stream'), name('fleeting'), name('own')]
  await kit.broker.channel.assertQueue(stream, { arguments: { 'x-queue-type': 'stream' } })
  await kit.broker.channel.assertQueue(fleeting, { autoDelete: true })
  await kit.broker.channel.assertQueue(own, { exclusive: true })
  expect(await refusal({ queue: stream })).toContain('is a stream')
  expect(await refusal({ queue: fleeting })).toContain('auto_delete')
  expect(await refusal({ queue: own })).toContain('exclusive')
})

test('the error names a missing dead-letter exchange of the queue', async () => {
  const queue = await kit.broker.create('classic', { 'x-dead-letter-exchange': 'nowhere' })
  expect(await refusal({ queue, deadLetter: 'dlx' })).toContain("'nowhere', does not exist")
})

test('queues with priorities and with a single active consumer can be consumed', async () => {
  const queue = await kit.broker.create('classic', {
    'x-max-priority': 5,
    'x-single-active-consumer': true,
  })
  const done: string[] = []
  const recording = guardOf(({ key }) => void done.push(key), { concurrency: 1 })
  await kit.broker.send(queue, ['low'], { priority: 1 })
  await kit.broker.send(queue, ['high'], { priority: 5 })
  const first = await consumeAmqp(kit.open, recording, { queue })
  await until(() => done.length === 2)
  expect(done).toEqual(['high', 'low'])
  await using second = await consumeAmqp(kit.open, recording, { queue })
  await first.drain()
  await kit.broker.send(queue, ['after'])
  await until(() => done.length === 3)
  expect(second.health().state).toBe('running')
})

// Red when the broker takes a publish for a use, or a look for none: then the looks of `DelayQueues` are of no use either.
test('a classic delay queue that goes when it is not used stays while it is looked at, and not while it is published to', async () => {
  const queue = await kit.broker.create('classic')
  const open = () => connection.createChannel()
  const [seen, written] = [`${queue}.retry.600000`, `${queue}.retry.1200000`]
  const { channel } = kit.broker
  for (const name of [seen, written]) {
    await channel.assertQueue(name, { arguments: { 'x-expires': 4_000 } })
  }
  let isGone = false
  channel.once('return', () => {
    isGone = true
  })
  await until(
    async () => {
      await kit.broker.send(written, ['deferred'], { mandatory: true })
      expect(await areThere(open, { queue, levelsMs: [600_000] })).toBe(true)
      return isGone
    },
    { everyMs: 200 },
  )
})
