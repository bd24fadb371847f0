import { expect, test } from 'vitest'
import { RecordingConnection } from './fixtures/recording-channel.ts'
import { DEFAULTS } from './options.ts'
import { assertLevels, describeQueue, levelFor, levelQueue } from './topology.ts'

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

/** A broker whose queue has these arguments, as it words them. */
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

test('learns how a queue was declared from what it refuses', async () => {
  const connection = brokerWith(
    {
      'x-queue-type': "the value 'quorum' of type 'longstr'",
      'x-delivery-limit': "the value '3' of type 'byte'",
      'x-single-active-consumer': "the value 'true' of type 'bool'",
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
    },
  })
})

test.each([
  ['words it otherwise', Object.assign(new Error('406 something else'), { code: 406 })],
  ['does not allow it', Object.assign(new Error('403 ACCESS_REFUSED'), { code: 403 })],
  ['repeats itself', refusal('x-odd', "the value 'a' of type 'longstr'")],
])('knows nothing of a queue when the server %s', async (_what, error) => {
  const connection = new RecordingConnection()
  connection.answers.set('assertQueue', () => {
    throw error
  })
  expect(await describeQueue(() => connection.createChannel(), 'orders')).toBeUndefined()
})

test('names every argument of a delay queue that differs', async () => {
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
  const levels = { queue: 'orders', levelsMs: [1_000], isQuorum: false }
  await expect(assertLevels(() => connection.createChannel(), levels)).rejects.toThrow(
    "'orders.retry.1000' exists with x-message-ttl '2000' instead of '1000' and x-dead-letter-exchange 'other' " +
      "instead of '' and x-dead-letter-routing-key none instead of 'orders'",
  )
})

test('a user who may declare nothing needs delay queues that are there', async () => {
  const connection = new RecordingConnection()
  connection.answers.set('assertQueue', () => {
    throw Object.assign(new Error('ACCESS_REFUSED'), { code: 403 })
  })
  const levels = { queue: 'orders', levelsMs: [1_000, 5_000], isQuorum: false }
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
])('delay queues of a quorum queue on RabbitMQ %s are of the type %s', async (version, type) => {
  const connection = new RecordingConnection(version)
  const declared: unknown[] = []
  connection.answers.set('assertQueue', (_queue, given) => {
    declared.push((given as { arguments: Record<string, unknown> }).arguments['x-queue-type'])
  })
  const levels = { queue: 'orders', levelsMs: [1_000], isQuorum: true }
  await assertLevels(() => connection.createChannel(), levels)
  expect(declared).toEqual([type])
})
