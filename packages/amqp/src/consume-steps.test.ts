import type { Settlement } from '@onceward/core'
import type { GuardPort } from '@onceward/core/adapter'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { AmqpConnection } from './client.ts'
import { consumeAmqp } from './consume.ts'
import { consuming } from './fixtures/consuming.ts'
import { message, RecordingConnection } from './fixtures/recording-channel.ts'

const queue = 'orders'
const MINUTE_MS = 60_000
const ack: Settlement = { kind: 'ack', by: 'processed' }

type PublisherSource = Parameters<GuardPort['registerPublisher']>[0]

const failure = (text: string, code: number): Error => Object.assign(new Error(text), { code })

/** From now on the queue is declared otherwise, as RabbitMQ tells it. */
function declaredWith(connection: RecordingConnection, name: string, current: string): void {
  connection.answers.set('assertQueue', (asserted, given) => {
    const { durable, arguments: args } = given as { durable: boolean; arguments: object }
    const isLearned = name === 'durable' ? !durable : name in args
    if (asserted === queue && !isLearned)
      throw failure(
        `PRECONDITION_FAILED - inequivalent arg '${name}' for queue 'orders' in vhost '/': received none but current is ${current}`,
        406,
      )
  })
}

// Red when only a call that fails tells of it: a consumer in a quiet hour is `running` for ever.
test('a connection of the user that closes ends the consumer, whose error and health say why', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  const consumption = await consumeAmqp(connection.connection, made.guard, { queue })
  const reason = expect.stringMatching(
    /is over \(Error: read ECONNRESET\), and only its owner can open another/,
  )
  const stopped = expect(consumption.stopped).rejects.toMatchObject({
    code: 'ONCEWARD_CONFIGURATION',
    message: reason,
  })
  connection.emit('close', new Error('read ECONNRESET'))
  await made.clock.advance(0)
  expect(consumption.health()).toMatchObject({ state: 'stopped', reason })
  await stopped
})

test('an error of the connection is logged, with the queue', async () => {
  const { connection, consumption, logged } = await consuming()
  connection.emit('error', new Error('read ECONNRESET'))
  expect(logged).toEqual([
    {
      level: 'warn',
      fields: { queue, reason: 'Error: read ECONNRESET' },
      text: 'the AMQP client failed',
    },
  ])
  await consumption.drain()
})

test('a settlement is progress, and the last one of a cancelled consumer closes its channel', async () => {
  const { connection, consumption, clock, handed } = await consuming()
  connection.consuming.deliver('a')
  await clock.advance(0)
  const startedAt = new Date(clock.nowMs)
  expect(consumption.health().lastProgressAt).toEqual(startedAt)
  await clock.advance(5_000)
  connection.consuming.callback?.(null)
  await clock.advance(0)
  const closed = connection.named('close').length
  expect(consumption.health().lastProgressAt).toEqual(startedAt)
  handed[0]?.settle(ack)
  await clock.advance(0)
  expect(consumption.health().lastProgressAt).toEqual(new Date(clock.nowMs))
  expect(connection.named('close')).toHaveLength(closed + 1)
  await consumption.drain()
})

// Red when the virtual host is asked of a queue that nobody examined: the guard's poller may look before that.
test('the publisher and the messages tell their virtual host as soon as it is known', async () => {
  const made = handMadeGuard()
  const sources: PublisherSource[] = []
  const registerPublisher = (source: PublisherSource) => {
    sources.push(source)
    return () => undefined
  }
  Object.assign(made.port, { registerPublisher })
  const connection = new RecordingConnection()
  connection.answers.set('checkQueue', (name) => {
    if (!String(name).startsWith(queue)) throw failure(`no queue '${name}' in vhost 'refunds'`, 404)
  })
  const opened = Promise.withResolvers<AmqpConnection>()
  const options = { queue, deadLetter: { queue: 'orders.dead' } }
  const starting = consumeAmqp(() => opened.promise, made.guard, options)
  await made.clock.advance(0)
  expect(sources).toMatchObject([{ broker: 'amqp', queue, namespace: undefined }])
  opened.resolve(connection.connection)
  const consumption = await starting
  expect(sources).toMatchObject([{ namespace: 'refunds' }])
  connection.consuming.deliver('a')
  await made.clock.advance(0)
  expect(made.handed[0]?.delivery.source).toEqual({ broker: 'amqp', queue, namespace: 'refunds' })
  made.handed[0]?.settle(ack)
  await consumption.drain()
})

/** As it comes back from a delay queue. */
const deferred = message(
  'a',
  { routingKey: queue },
  {
    headers: {
      'x-onceward-deferrals': 1,
      'x-onceward-exchange': 'shop',
      'x-onceward-routing-key': 'order.new',
    },
  },
)

test('a dead message that was deferred goes to the dead-letter exchange of its queue by its own key', async () => {
  const connection = new RecordingConnection()
  declaredWith(connection, 'x-dead-letter-exchange', "the value 'shop.dead' of type 'longstr'")
  const { guard, clock, state } = handMadeGuard()
  state.decide = () => ({ kind: 'dead-letter', reason: 'fatal' })
  const options = { queue, deadLetter: 'dlx' } as const
  const consumption = await consumeAmqp(async () => connection.connection, guard, options)
  connection.consuming.callback?.(deferred)
  await clock.advance(0)
  expect(connection.published()).toMatchObject([{ exchange: 'shop.dead', routingKey: 'order.new' }])
  expect(connection.settled()).toEqual([['ack', 1, false]])
  await consumption.drain()
})

const BOTH = ['orders.retry.30000', 'orders.retry.90000']
const declaredLevels = (connection: RecordingConnection): readonly unknown[] =>
  connection
    .named('assertQueue')
    .map(({ args }) => args[0])
    .filter((name) => name !== queue)

test.each<[string, readonly string[], readonly string[]]>([
  ['are there, are not', [], []],
  ['lost one, are', ['orders.retry.90000'], BOTH],
])('delay queues that %s declared again after a minute', async (_, missing, declared) => {
  const kit = await consuming({ retryLevelsMs: [30_000, 90_000] })
  const { connection, consumption, clock } = kit
  expect(declaredLevels(connection)).toEqual(BOTH)
  connection.answers.set('checkQueue', (name) => {
    if (missing.includes(String(name))) throw failure('NOT_FOUND', 404)
  })
  kit.state.decide = () => ({ kind: 'defer', reason: 'failed', until: kit.until(20_000) })
  await clock.advance(MINUTE_MS)
  connection.consuming.deliver('a')
  await clock.advance(0)
  expect(connection.named('checkQueue').map(({ args }) => args[0])).toContain(BOTH[1])
  expect(declaredLevels(connection).slice(BOTH.length)).toEqual(declared)
  expect(connection.published()).toHaveLength(1)
  await consumption.drain()
})

test('a queue that was deleted is examined anew when it is back, because another may have its name', async () => {
  const { connection, consumption, clock, logged } = await consuming()
  declaredWith(connection, 'durable', "'false'")
  connection.consuming.callback?.(null)
  await clock.advance(1_000)
  expect(consumption.health()).toMatchObject({ state: 'running' })
  expect(JSON.stringify(logged)).toContain("'orders' is not durable")
  await consumption.drain()
})
