import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { checkThere } from './clients/calls.ts'
import { describeQueue } from './clients/queue-shape.ts'
import { RecordingConnection } from './fixtures/recording-channel.ts'
import { DEFAULTS } from './options.ts'
import { assertLevels, levelFor, levelQueue } from './topology.ts'

test.each([
  [0, 1_000],
  [1_000, 1_000],
  [1_001, 5_000],
  [200_000, 600_000],
  [86_400_000, 3_600_000],
])('a wait of %i ms goes to the level of %i ms', (waitMs, levelMs) => {
  expect(levelFor(DEFAULTS.retryLevelsMs, waitMs)).toBe(levelMs)
  expect(levelQueue('orders', levelMs)).toBe(`orders.retry.${levelMs}`)
})

const refusal = (argument: string, current: string): Error =>
  Object.assign(
    new Error(
      'Operation failed: QueueDeclare; 406 (PRECONDITION-FAILED) with message "PRECONDITION_FAILED - inequivalent ' +
        `arg '${argument}' for queue 'orders' in vhost '/': received none but current is ${current}"`,
    ),
    { code: 406 },
  )

const failure = (text: string, code: number | string): Error =>
  Object.assign(new Error(text), { code })

/** A broker whose queue has these arguments, in its own wording. */
function brokerWith(args: Readonly<Record<string, string>>, durable = true) {
  const connection = new RecordingConnection()
  connection.answers.set('assertQueue', (_queue, given) => {
    const declared = given as { durable: boolean; arguments: object }
    if (declared.durable !== durable) throw refusal('durable', `'${durable}'`)
    for (const [name, value] of Object.entries(args)) {
      if (!(name in declared.arguments)) throw refusal(name, value)
    }
  })
  return connection
}

test('the arguments of a queue are learned from refused declarations', async () => {
  const connection = brokerWith(
    {
      'x-queue-type': "the value 'quorum' of type 'longstr'",
      'x-delivery-limit': "the value '3' of type 'byte'",
      'x-single-active-consumer': "the value 'true' of type 'bool'",
      'x-odd': "the value 'false' of type 'bool'",
    },
    false,
  )
  expect(await describeQueue(() => connection.createChannel(), 'orders')).toEqual({
    durable: false,
    autoDelete: false,
    exclusive: false,
    arguments: {
      'x-queue-type': 'quorum',
      'x-delivery-limit': 3,
      'x-single-active-consumer': true,
      'x-odd': false,
    },
  })
  expect(connection.named('checkQueue', 'close').map(({ name }) => name)).toEqual([
    'checkQueue',
    'close',
    'close',
  ])
  // amqplib also emits the refusal on the channel.
  for (const channel of connection.channels) channel.emit('error', new Error('406'))
})

test.each([
  ['durable', 'durable', 'false', false],
  ['auto_delete', 'autoDelete', "'true'", true],
  ['exclusive', 'exclusive', 'true', true],
])(
  'the argument %s is learned from the error text of either server',
  async (argument, option, current, value) => {
    const connection = new RecordingConnection()
    connection.answers.set('assertQueue', (_queue, given) => {
      if (Reflect.get(given as object, option) !== value) throw refusal(argument, current)
    })
    const plain = { durable: true, autoDelete: false, exclusive: false, arguments: {} }
    const classic = { ...plain, arguments: { 'x-queue-type': 'classic' } }
    expect(await describeQueue(() => connection.createChannel(), 'orders')).toEqual({
      ...classic,
      [option]: value,
    })
    expect(connection.named('assertQueue').map(({ args }) => args)).toEqual([
      ['orders', plain],
      ['orders', { ...plain, [option]: value }],
      ['orders', { ...classic, [option]: value }],
    ])
  },
)

/** A queue with these arguments on a server that gives declarations without a type this one, as RabbitMQ compares them. */
function serverWith(byDefault: string, type: string | undefined, args: Record<string, string>) {
  const connection = new RecordingConnection()
  const refused = (why: string): Error => failure(`PRECONDITION_FAILED - ${why}`, 406)
  connection.answers.set('assertQueue', (_queue, given) => {
    const { 'x-queue-type': asked = byDefault, ...declared } = (
      given as { arguments: Record<string, unknown> }
    ).arguments
    const strange = asked === 'quorum' ? 'x-max-priority' : 'x-delivery-limit'
    if (strange in declared) {
      throw refused(
        `invalid arg '${strange}' for queue 'orders' in vhost '/' of queue type ${asked}`,
      )
    }
    for (const [name, value] of Object.entries(args)) {
      if (!(name in declared)) throw refusal(name, `the value '${value}' of type 'byte'`)
    }
    if (asked === (type ?? 'classic')) return
    const current = type === undefined ? 'none' : `'${type}'`
    throw refused(
      `inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': received '${asked}' but current is ${current}`,
    )
  })
  return connection
}

// Red when the type is only learned where it is told: a quorum queue was taken for a classic one, so its delivery limit
// was not checked, and delay queues from before the default were refused for ever.
test.each([
  ['quorum', 'quorum', { 'x-delivery-limit': '3' }],
  ['quorum', 'quorum', {}],
  ['quorum', 'classic', { 'x-max-priority': '3' }],
  ['quorum', undefined, { 'x-max-priority': '3' }],
  ['quorum', 'stream', {}],
  ['classic', 'quorum', { 'x-delivery-limit': '3' }],
  ['classic', undefined, { 'x-max-priority': '3' }],
])(
  'where queues are of the type %s by default, the type of one that was declared as %s with %o is learned',
  async (byDefault, type, args) => {
    const connection = serverWith(byDefault, type, args)
    expect(await describeQueue(() => connection.createChannel(), 'orders')).toMatchObject({
      arguments: {
        'x-queue-type': type ?? 'classic',
        ...Object.fromEntries(Object.entries(args).map(([name, value]) => [name, Number(value)])),
      },
    })
  },
)

test('a queue that does not exist is reported as missing, and any other error is thrown', async () => {
  const connection = new RecordingConnection()
  const describing = () => describeQueue(() => connection.createChannel(), 'orders')
  const throwing = (error: Error) => () => {
    throw error
  }
  connection.answers.set('assertQueue', throwing(failure('read ECONNRESET', 'ECONNRESET')))
  await expect(describing()).rejects.toThrow('ECONNRESET')
  connection.answers.set('checkQueue', throwing(failure('NOT_FOUND', 404)))
  expect(await describing()).toBe('missing')
  connection.answers.set('checkQueue', throwing(failure('RESOURCE_LOCKED', 405)))
  await expect(describing()).rejects.toThrow('RESOURCE_LOCKED')
})

test('a missing queue or exchange gives its own error text, and any other error is thrown as it is', async () => {
  const connection = new RecordingConnection()
  const missing = () => new ConfigurationError('declare it')
  const checking = (error?: Error) =>
    checkThere(
      () => connection.createChannel(),
      () => (error === undefined ? Promise.resolve() : Promise.reject(error)),
      missing,
    )
  await checking()
  await expect(checking(failure('NOT_FOUND', 404))).rejects.toThrow('declare it')
  await expect(checking(failure('ACCESS_REFUSED', 403))).rejects.toThrow('ACCESS_REFUSED')
})

test.each([
  ['words it otherwise', failure('406 something else', 406), 1],
  ['does not allow it', failure('403 ACCESS_REFUSED', 403), 1],
  ['repeats itself', refusal('x-odd', "the value 'a' of type 'longstr'"), 2],
  ['has a value of no known type', refusal('x-odd', "the value 'a' of type 'table'"), 1],
  ['has no value', refusal('x-odd', 'none'), 1],
])('the shape of a queue is unknown if the server %s', async (_what, error, tries) => {
  const connection = new RecordingConnection()
  connection.answers.set('assertQueue', () => {
    throw error
  })
  expect(await describeQueue(() => connection.createChannel(), 'orders')).toBeUndefined()
  expect(connection.named('assertQueue')).toHaveLength(tries)
})

test('the error names every argument of a delay queue that differs', async () => {
  const connection = brokerWith({
    'x-message-ttl': "the value '2000' of type 'short'",
    'x-dead-letter-exchange': "the value 'other' of type 'longstr'",
  })
  const refuse = connection.answers.get('assertQueue')
  connection.answers.set('assertQueue', (queue, given) => {
    const { arguments: args } = given as { arguments: Record<string, unknown> }
    if (args['x-message-ttl'] === 1_000) {
      throw refusal('x-message-ttl', "the value '2000' of type 'short'")
    }
    return refuse?.(queue, given)
  })
  const levels = { queue: 'orders', levelsMs: [1_000], isQuorum: false, mayRefuse: false }
  await expect(assertLevels(() => connection.createChannel(), levels)).rejects.toThrow(
    "'orders.retry.1000' exists with x-message-ttl '2000' instead of '1000' and x-dead-letter-exchange 'other' " +
      "instead of '' and x-dead-letter-routing-key none instead of 'orders'",
  )
})

test('a user without the right to declare needs delay queues that exist', async () => {
  const connection = new RecordingConnection()
  connection.answers.set('assertQueue', () => {
    throw Object.assign(new Error('ACCESS_REFUSED'), { code: 403 })
  })
  const levels = { queue: 'orders', levelsMs: [1_000, 5_000], isQuorum: false, mayRefuse: false }
  await assertLevels(() => connection.createChannel(), levels)
  connection.answers.set('checkQueue', (queue) => {
    if (queue === 'orders.retry.5000') throw Object.assign(new Error('NOT_FOUND'), { code: 404 })
  })
  await expect(assertLevels(() => connection.createChannel(), levels)).rejects.toThrow(
    /orders\.retry\.5000 do not exist.*assertRetryTopology/s,
  )
})

test.each([
  ['3.9.29', undefined],
  ['3.10.0', 'quorum'],
  ['3.13.7', 'quorum'],
  ['4.0.5', 'quorum'],
  ['', 'quorum'],
])('delay queues of a quorum queue on RabbitMQ %s have the type %s', async (version, type) => {
  const connection = new RecordingConnection(version)
  const declared: unknown[] = []
  connection.answers.set('assertQueue', (_queue, given) => {
    declared.push((given as { arguments: Record<string, unknown> }).arguments['x-queue-type'])
  })
  const levels = { queue: 'orders', levelsMs: [1_000], isQuorum: true, mayRefuse: false }
  await assertLevels(() => connection.createChannel(), levels)
  expect(declared).toEqual([type])
})
