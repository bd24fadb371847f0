import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { RecordingChannel, RecordingConnection } from './fixtures/recording-channel.ts'
import type { WrapAmqpOptions } from './options.ts'
import { wrapAmqp } from './wrap.ts'

const queue = 'orders'
const MINUTE_MS = 60_000

function setUp(options: Partial<WrapAmqpOptions> = {}, connection = new RecordingConnection()) {
  const channel = new RecordingChannel(connection)
  const made = handMadeGuard()
  const given = { queue, retryLevelsMs: [30_000, 90_000], ...options }
  const wrapped = wrapAmqp(channel as never, made.guard, given)
  channel.callback = wrapped
  const defer = (): Settlement => {
    const until = (made.clock.nowMs + 20_000) as never
    return { kind: 'defer', reason: 'failed', until }
  }
  return { ...made, connection, channel, wrapped, defer }
}

/** The broker has no queue of these names; it names its virtual host. */
function without(connection: RecordingConnection, ...missing: readonly string[]): void {
  connection.answers.set('checkQueue', (name) => {
    if (missing.some((each) => String(name).startsWith(each)))
      throw Object.assign(new Error(`NOT_FOUND - no queue '${name}' in vhost 'refunds'`), {
        code: 404,
      })
  })
}

const declaredLevels = (connection: RecordingConnection): readonly unknown[] =>
  connection
    .named('assertQueue')
    .map(({ args }) => args[0])
    .filter((name) => name !== queue)

// Red when it stays registered: the guard's poller would publish on a channel that is closed.
test('a wrap whose channel closed publishes no more, and listens to its connection no more', async () => {
  const kit = setUp({ deadLetter: { queue: 'orders.dead' } })
  await kit.clock.advance(0)
  expect([...kit.publishers.keys()]).toEqual([queue])
  expect(kit.connection.eventNames()).toEqual(['blocked', 'unblocked'])
  kit.channel.emit('close')
  expect([...kit.publishers.keys()]).toEqual([])
  expect(kit.connection.eventNames()).toEqual([])
  // An error that nobody listens to would end the process.
  expect(kit.channel.eventNames()).toEqual(['error'])
})

test('the messages of a wrap that publishes dead letters tell their virtual host, as soon as it is known', async () => {
  const connection = new RecordingConnection()
  without(connection, 'onceward asks')
  const kit = setUp({ deadLetter: { queue: 'orders.dead' } }, connection)
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  expect(kit.handed[0]?.delivery.source).toEqual({ broker: 'amqp', queue, namespace: 'refunds' })
})

// Red when nobody handles the failure of the question: Node ends the process.
test('a wrap that cannot ask for its virtual host goes on without', async () => {
  const connection = new RecordingConnection()
  connection.answers.set('open', () => {
    throw new Error('No channels left to allocate')
  })
  const kit = setUp({ deadLetter: { queue: 'orders.dead' } }, connection)
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  expect(kit.handed[0]?.delivery.source.namespace).toBeUndefined()
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(0)
  expect(kit.connection.settled()).toEqual([['ack', 1, false]])
})

test('a channel whose connection tells of no alarms is wrapped all the same', async () => {
  const connection = new RecordingConnection()
  const mute = {
    channels: [],
    record: (name: string, args: readonly unknown[]) => connection.record(name, args),
  }
  const channel = new RecordingChannel(mute as unknown as RecordingConnection)
  const { guard, clock, state } = handMadeGuard()
  state.decide = () => ({ kind: 'ack', by: 'processed' })
  const wrapped = wrapAmqp(channel as never, guard, { queue })
  channel.callback = wrapped
  channel.deliver('a')
  await clock.advance(0)
  expect(connection.settled()).toEqual([['ack', 1, false]])
  await wrapped.consumption.drain()
})

// Trap A3: the publish would close the channel, and with it the consumer.
test('a dead letter whose exchange is missing is not published, and its message stays in hand until there is one', async () => {
  const kit = setUp({ deadLetter: { exchange: 'shop.dead', routingKey: 'orders' } })
  kit.connection.answers.set('checkExchange', () => {
    throw Object.assign(new Error("NOT_FOUND - no exchange 'shop.dead'"), { code: 404 })
  })
  kit.state.decide = () => ({ kind: 'dead-letter', reason: 'fatal' })
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  expect(kit.connection.named('checkExchange')).toMatchObject([{ args: ['shop.dead'] }])
  expect([kit.connection.published(), kit.connection.settled()]).toEqual([[], []])
  expect(kit.logged.map(({ fields }) => String(fields['reason'])).join()).toMatch(
    /The exchange of `deadLetter\.exchange`, 'shop\.dead', does not exist/,
  )
  kit.connection.answers.delete('checkExchange')
  await kit.clock.advance(MINUTE_MS)
  expect(kit.connection.published()).toMatchObject([
    { exchange: 'shop.dead', routingKey: 'orders' },
  ])
  expect(kit.connection.settled()).toEqual([['ack', 1, false]])
})

const BOTH = ['orders.retry.30000', 'orders.retry.90000']

test.each<[string, readonly string[], readonly string[]]>([
  ['are there, are not', [], []],
  ['lost one, are', ['orders.retry.90000'], BOTH],
])('delay queues that %s declared again after a minute', async (_, missing, declared) => {
  const kit = setUp()
  kit.state.decide = kit.defer
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  expect(declaredLevels(kit.connection)).toEqual(BOTH)
  without(kit.connection, ...missing)
  await kit.clock.advance(MINUTE_MS)
  kit.channel.deliver('b')
  await kit.clock.advance(0)
  expect(kit.connection.named('checkQueue').map(({ args }) => args[0])).toContain(BOTH[1])
  expect(declaredLevels(kit.connection).slice(BOTH.length)).toEqual(declared)
  expect(kit.connection.published()).toHaveLength(2)
})

// The copy is then the only one, and the queue may be declared again while it waits.
test('a message whose queue was deleted meanwhile is deferred', async () => {
  const kit = setUp()
  without(kit.connection, queue)
  kit.state.decide = kit.defer
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  expect(declaredLevels(kit.connection)).toEqual(BOTH)
  expect(kit.connection.published()).toMatchObject([{ routingKey: 'orders.retry.30000' }])
  expect(kit.connection.settled()).toEqual([['ack', 1, false]])
})
