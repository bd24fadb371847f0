import { ConfigurationError } from '@onceward/core'
import { until } from '@onceward/testing'
import { erlang, guardOf } from '@onceward/testing/adapter'
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

test('a queue that dead-letters into itself is refused, because what is rejected comes back', async () => {
  const queue = await kit.broker.create('classic', { 'x-dead-letter-exchange': '' })
  expect(await refusal({ queue, deadLetter: 'dlx' })).toContain('would come back again and again')
  await kit.broker.send(queue, ['once'])
  const channel = await connection.createChannel()
  const seen = Promise.withResolvers<void>()
  let deliveries = 0
  await channel.consume(queue, (message) => {
    if (message === null) return
    deliveries += 1
    channel.nack(message, false, false)
    if (deliveries === 10) seen.resolve()
  })
  await seen.promise
  await channel.close()
})

/** Of RabbitMQ 3; that of RabbitMQ 4 need not be Mnesia. */
const HAS_MNESIA = 'case erlang:function_exported(rabbit_misc, execute_mnesia_transaction, 1)'

// Red when every 404 means that the queue does not exist: a start while its node was down was refused.
test('a queue that is there but cannot be used is waited for', async ({ skip }) => {
  const evaluate = erlang(kit.server)
  if (evaluate === undefined) return skip('needs a node of its own')
  const queue = await kit.broker.create()
  const set = (state: string) =>
    evaluate(
      `Set = fun() -> rabbit_amqqueue:update(rabbit_misc:r(<<"/">>, queue, <<"${queue}">>), ` +
        `fun(Q) -> amqqueue:set_state(Q, ${state}) end) end, ${HAS_MNESIA} of ` +
        'true -> rabbit_misc:execute_mnesia_transaction(Set); false -> Set() end, ok.',
    )
  await set('crashed')
  await using consumption = await consumeAmqp(kit.open, guard, { queue })
  expect(consumption.health()).toMatchObject({
    state: 'recovering',
    reason: expect.stringContaining('has crashed'),
  })
  await set('live')
  await until(() => consumption.health().state === 'running')
})

// Red when a declaration without a type is taken for one of a classic queue.
test('the types of queues are known where the virtual host has a default type', async ({
  skip,
}) => {
  const evaluate = erlang(kit.server)
  if (evaluate === undefined) return skip('needs a node of its own')
  const classic = await kit.broker.create('classic', { 'x-max-priority': 5 })
  const limited = await kit.broker.create('quorum', { 'x-delivery-limit': 3 })
  const strategic = await kit.broker.create('quorum', {
    'x-dead-letter-exchange': '',
    'x-dead-letter-routing-key': 'elsewhere',
    'x-dead-letter-strategy': 'at-least-once',
    'x-overflow': 'reject-publish',
  })
  const start = async (queue: string): Promise<string> => {
    await using consumption = await consumeAmqp(kit.open, guard, { queue })
    return consumption.health().state
  }
  expect(await start(classic)).toBe('running')
  const setDefault = (change: string) =>
    evaluate(
      `Change = fun(M) -> ${change} end, ${HAS_MNESIA} of ` +
        'true -> rabbit_misc:execute_mnesia_transaction(fun() -> rabbit_vhost:update_metadata(<<"/">>, Change) end); ' +
        'false -> rabbit_db_vhost:update(<<"/">>, fun(V) -> vhost:set_metadata(V, Change(vhost:get_metadata(V))) end) ' +
        'end, ok.',
    )
  await setDefault('M#{default_queue_type => <<"quorum">>}')
  try {
    expect(await start(classic)).toBe('running')
    expect(await shapeOf(classic)).toMatchObject({ arguments: { 'x-queue-type': 'classic' } })
    expect(await refusal({ queue: limited })).toContain('x-delivery-limit 3')
    expect(await shapeOf(strategic)).toMatchObject({
      arguments: { 'x-queue-type': 'quorum', 'x-dead-letter-strategy': 'at-least-once' },
    })
  } finally {
    await setDefault('maps:remove(default_queue_type, M)')
  }
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

// Red when the error names a missing right: no right lets a user declare queues of such names.
test('a queue that the server has named is refused, because it can have no delay queues', async () => {
  const { channel } = kit.broker
  const { queue } = await channel.assertQueue('', { durable: true })
  try {
    const consuming = consumeAmqp(
      kit.open,
      guardOf(() => undefined),
      { queue },
    )
    await expect(consuming).rejects.toThrow(/'amq\.gen-.* begins with 'amq\.'.* name of your own/)
  } finally {
    await channel.deleteQueue(queue)
  }
})
