import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { RecordingChannel, RecordingConnection } from './fixtures/recording-channel.ts'
import { assertLevels, assertRetryTopology, levelsOf } from './topology.ts'

const failure = (text: string, code: number): Error => Object.assign(new Error(text), { code })
const NOT_FOUND = failure('NOT_FOUND', 404)

/** As RabbitMQ refuses a declaration that differs from the queue there is. */
const differs = (name: string, current: string): Error =>
  failure(
    `PRECONDITION_FAILED - inequivalent arg '${name}' for queue 'q' in vhost '/': received none but current is ${current}`,
    406,
  )
const text = (value: string): string => `the value '${value}' of type 'longstr'`

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
const classic = { ...plain, arguments: { 'x-queue-type': 'classic' } }
const levelArguments = {
  'x-message-ttl': 100,
  'x-dead-letter-exchange': '',
  'x-dead-letter-routing-key': 'orders',
}

test('a delay queue is declared for each level, and a dead-letter queue', async () => {
  const connection = brokerWith(['orders'])
  const names = ['orders.retry.100', 'orders.retry.5000']
  expect(await assertRetryTopology(connection.connection, 'orders', [100, 5_000])).toEqual(names)
  expect(declared(connection)).toEqual([
    ['orders', plain],
    ['orders', classic],
    [names[0], { durable: true, arguments: levelArguments }],
    [names[1], { durable: true, arguments: { ...levelArguments, 'x-message-ttl': 5_000 } }],
    ['orders.dead', { durable: true, arguments: {} }],
  ])
})

test('delay queues of a quorum queue are quorum queues, which lose no message on the way back', async () => {
  const connection = brokerWith(['orders'])
  const type = { 'x-queue-type': 'quorum' }
  connection.answers.set('assertQueue', (_queue, given) => {
    const { arguments: args } = given as { arguments: object }
    if (!('x-queue-type' in args)) throw differs('x-queue-type', text('quorum'))
  })
  await assertRetryTopology(connection.connection, 'orders', [100])
  expect(declared(connection).slice(1)).toEqual([
    ['orders', { ...plain, arguments: type }],
    [
      'orders.retry.100',
      {
        durable: true,
        arguments: {
          ...levelArguments,
          ...type,
          'x-dead-letter-strategy': 'at-least-once',
          'x-overflow': 'reject-publish',
        },
      },
    ],
    ['orders.dead', { durable: true, arguments: type }],
  ])
})

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

test('an existing dead-letter queue is left alone, and a refused declaration is thrown', async () => {
  const connection = brokerWith(['orders', 'orders.dead'])
  await assertRetryTopology(connection.connection, 'orders', [100])
  expect(declared(connection)).toHaveLength(3)
  const refusing = brokerWith(['orders'])
  refusing.answers.set('assertQueue', (queue) => {
    if (queue === 'orders.dead') throw failure('ACCESS_REFUSED', 403)
  })
  const asserting = assertRetryTopology(refusing.connection, 'orders', [100])
  await expect(asserting).rejects.toThrow('ACCESS_REFUSED')
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

test('the error names a missing queue, and nothing is declared', async () => {
  const connection = brokerWith([])
  const asserting = assertRetryTopology(connection.connection, 'orders', [100])
  await expect(asserting).rejects.toThrow("The queue 'orders' does not exist")
  expect(declared(connection)).toEqual([])
})

test('the error names a queue name that is too long and empty levels together', async () => {
  const connection = new RecordingConnection()
  const queue = 'q'.repeat(239)
  const asserting = assertRetryTopology(connection.connection, queue, [])
  await expect(asserting).rejects.toThrow(/`queue` .* at most 238 bytes.*`levels`/s)
  await expect(asserting).rejects.toBeInstanceOf(ConfigurationError)
  expect(connection.calls).toEqual([])
  await assertRetryTopology(brokerWith([queue.slice(1)]).connection, queue.slice(1), [100])
})

const levels = { queue: 'orders', levelsMs: [100], isQuorum: true, mayRefuse: false }

/** A delay queue that is declared like this; a declaration that differs is refused. */
function existing(args: Readonly<Record<string, string>>, durable = true): RecordingConnection {
  const connection = new RecordingConnection()
  connection.answers.set('assertQueue', (_queue, given) => {
    const other = given as { durable: boolean; arguments: Readonly<Record<string, unknown>> }
    if (other.durable !== durable) throw differs('durable', String(durable))
    const names = new Set([...Object.keys(args), ...Object.keys(other.arguments)])
    for (const name of names) {
      const value = args[name]
      if (String(other.arguments[name]) === String(value)) continue
      throw differs(name, value === undefined ? 'none' : text(value))
    }
  })
  return connection
}

const asserting = (connection: RecordingConnection): Promise<void> =>
  assertLevels(() => connection.createChannel(), levels)
const same = { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'orders' }

/** Its TTL as a number, as the server tells it. */
function withTtl(connection: RecordingConnection): RecordingConnection {
  const refuse = connection.answers.get('assertQueue')
  connection.answers.set('assertQueue', (queue, given) => {
    const { arguments: args } = given as { arguments: object }
    if (!('x-message-ttl' in args)) throw differs('x-message-ttl', "the value '100' of type 'byte'")
    return refuse?.(queue, given)
  })
  return connection
}

test('a delay queue of the other type, or with extra limits, is accepted', async () => {
  await asserting(withTtl(existing({ ...same, 'x-message-ttl': '100', 'x-max-length': '7' })))
})

test('the error names a delay queue that is not durable', async () => {
  const connection = withTtl(existing({ ...same, 'x-message-ttl': '100' }, false))
  await expect(asserting(connection)).rejects.toThrow(
    "'orders.retry.100' exists with durable false instead of true. Delete it",
  )
})

test("the error of a delay queue that can be neither declared nor described is the server's", async () => {
  const connection = new RecordingConnection()
  const refuse = (code: number) =>
    connection.answers.set('assertQueue', () => {
      throw failure(`told ${code}`, code)
    })
  for (const code of [405, 500]) {
    refuse(code)
    await expect(asserting(connection)).rejects.toThrow(`told ${code}`)
  }
  // Only a refusal is a reason to ask how it was declared.
  expect(connection.named('checkQueue')).toEqual([])
  refuse(406)
  await expect(asserting(connection)).rejects.toThrow('told 406')
  connection.answers.set('checkQueue', () => {
    throw NOT_FOUND
  })
  refuse(406)
  await expect(asserting(connection)).rejects.toThrow('told 406')
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
