import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { RecordingChannel, RecordingConnection } from './fixtures/recording-channel.ts'
import { assertLevels, assertRetryTopology, levelsOf } from './topology.ts'

const failure = (text: string, code: number): Error => Object.assign(new Error(text), { code })
const NOT_FOUND = failure('NOT_FOUND', 404)

/** A broker that has these queues, and takes any declaration. */
function brokerWith(queues: readonly string[], version?: string): RecordingConnection {
  const connection = new RecordingConnection(version)
  connection.answers.set('checkQueue', (queue) => {
    if (!queues.includes(queue as string)) throw NOT_FOUND
  })
  return connection
}

const declared = (connection: RecordingConnection): readonly unknown[] =>
  connection.named('assertQueue').map(({ args }) => args)
const plain = { durable: true, autoDelete: false, exclusive: false, arguments: {} }
const levelArguments = {
  'x-message-ttl': 100,
  'x-dead-letter-exchange': '',
  'x-dead-letter-routing-key': 'orders',
}

test('delay queues of a queue that may not be inspected have the default type', async () => {
  const connection = brokerWith(['orders'])
  connection.answers.set('assertQueue', (queue) => {
    if (queue === 'orders') throw failure('ACCESS_REFUSED', 403)
  })
  await assertRetryTopology(connection.connection, 'orders', [100])
  expect(declared(connection)[1]).toEqual([
    'orders.retry.100',
    { durable: true, arguments: levelArguments },
  ])
})

test('a channel of the caller is not used, because a refusal would close it', async () => {
  const connection = brokerWith(['orders'])
  const used = (): never => {
    throw new Error('used')
  }
  const channel = new RecordingChannel(connection)
  Object.assign(channel, { assertQueue: used, checkQueue: used, close: used })
  await assertRetryTopology(channel as never, 'orders', [100])
  expect(connection.named('createChannel')).toEqual([])
  // Each is opened before it is used.
  expect(connection.calls.slice(0, 3).map(({ name }) => name)).toEqual([
    'open',
    'checkQueue',
    'close',
  ])
  expect(connection.channels.slice(1)).toHaveLength(connection.named('open').length)
})

test('a wrapper around a channel is refused', async () => {
  class Around {
    readonly connection: unknown = new RecordingConnection()
  }
  const asserting = assertRetryTopology(new Around() as never, 'orders', [100])
  await expect(asserting).rejects.toThrow('Expected a channel of amqplib')
})

// Red when only the type of the queue decides: what a full queue refuses is lost.
test.each([
  ['reject-publish', '3.10.0', 'quorum'],
  ['reject-publish-dlx', '4.1.0', 'quorum'],
  ['drop-head', '4.1.0', undefined],
  [undefined, '3.10.0', undefined],
])(
  'trap B3: with x-overflow %s on RabbitMQ %s a delay queue has the type %s',
  async (overflow, version, type) => {
    const connection = new RecordingConnection(version)
    const shape = { ...plain, arguments: { 'x-overflow': overflow } }
    await assertLevels(() => connection.createChannel(), levelsOf('orders', [100], shape))
    const [, options] = declared(connection)[0] as [string, { arguments: Record<string, unknown> }]
    expect(options.arguments['x-queue-type']).toBe(type)
    expect(options.arguments['x-dead-letter-strategy']).toBe(type && 'at-least-once')
  },
)

test('trap B3: a queue that refuses publishers is refused on a server whose delay queues would lose messages', async () => {
  const connection = new RecordingConnection('3.9.29')
  const shape = { ...plain, arguments: { 'x-overflow': 'reject-publish' } }
  const asserting = assertLevels(() => connection.createChannel(), levelsOf('orders', [100], shape))
  await expect(asserting).rejects.toThrow(ConfigurationError)
  await expect(asserting).rejects.toThrow(
    "'orders' refuses publishers when it is full (x-overflow)",
  )
})
