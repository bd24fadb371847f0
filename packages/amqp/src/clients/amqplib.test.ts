import { Clock, turn } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message, RecordingChannel, RecordingConnection } from '../fixtures/recording-channel.ts'
import { DeliveryChannel, type Outgoing, PUBLISH_ID, Publisher } from './amqplib.ts'

function channelOf() {
  const connection = new RecordingConnection()
  const channel = new DeliveryChannel(new RecordingChannel(connection) as never)
  const received = (deliveryTag: number) => {
    const each = message('k', { deliveryTag })
    channel.delivered(each)
    return each
  }
  return { connection, channel, received }
}

test('consecutive acks of one turn are sent as one, if no lower tag is missing', async () => {
  const { connection, channel, received } = channelOf()
  for (const tag of [1, 2, 3]) channel.ack(received(tag))
  await turn()
  expect(connection.settled()).toEqual([['ack', 3, true]])
  channel.ack(received(4))
  await turn()
  expect(connection.settled().slice(1)).toEqual([['ack', 4, false]])
})

// Red when `multiple` reaches over a message in hand: it is acked before its handler ended.
test('trap T18: an ack never covers a lower message that is still in hand', async () => {
  const { connection, channel, received } = channelOf()
  const messages = [1, 2, 3, 4, 5].map(received)
  for (const each of [messages[4], messages[3], messages[1], messages[0]])
    channel.ack(each as never)
  await turn()
  expect(connection.settled()).toEqual([
    ['ack', 2, true],
    ['ack', 5, false],
    ['ack', 4, false],
  ])
  expect(channel.inHand).toBe(1)
  channel.ack(messages[2] as never)
  await turn()
  expect(connection.settled().slice(3)).toEqual([['ack', 3, false]])
  channel.ack(received(6))
  channel.ack(received(7))
  await turn()
  expect(connection.settled().slice(4)).toEqual([['ack', 7, true]])
})

test('a message that was rejected alone does not interrupt a multiple ack', async () => {
  const { connection, channel, received } = channelOf()
  const messages = [1, 2, 3].map(received)
  channel.nack(messages[0] as never, true)
  channel.ack(messages[1] as never)
  channel.ack(messages[2] as never)
  await turn()
  expect(connection.settled()).toEqual([
    ['nack', 1, false, true],
    ['ack', 3, true],
  ])
})

// Red without the rule: tags of other consumers on the channel are acked with ours.
test('trap A11: tags that other consumers got are never covered by an ack', async () => {
  const { connection, channel, received } = channelOf()
  for (const tag of [3, 4, 6]) channel.ack(received(tag))
  await turn()
  expect(connection.settled()).toEqual([
    ['ack', 3, false],
    ['ack', 4, false],
    ['ack', 6, false],
  ])
})

// Red when the second ack is sent: 406, and all that is in hand is delivered again.
test('trap A1: each delivery is settled once', async () => {
  const { connection, channel, received } = channelOf()
  const first = received(1)
  expect(channel.ack(first)).toBe(true)
  expect(channel.ack(first)).toBe(false)
  await turn()
  expect(channel.nack(first, true)).toBe(false)
  expect(connection.settled()).toEqual([['ack', 1, false]])
})

test('nothing is sent on a channel that is closed, or that throws because it is closed', async () => {
  const { connection, channel, received } = channelOf()
  const [first, second] = [received(1), received(2)]
  connection.answers.set('nack', () => {
    throw new Error('Channel closed')
  })
  expect(channel.nack(first, true)).toBe(false)
  expect(channel.isOpen).toBe(false)
  expect(channel.ack(second)).toBe(false)
  await turn()
  expect(connection.settled()).toEqual([['nack', 1, false, true]])
})

const outgoing: Outgoing = {
  exchange: '',
  routingKey: 'orders.dead',
  content: Buffer.from('{}'),
  options: { messageId: 'm-1', headers: { mine: 1 } },
  remedy: 'declare it',
}

function publisherOf() {
  const connection = new RecordingConnection()
  const clock = new Clock()
  const errors: unknown[] = []
  const publisher = new Publisher({
    runtime: clock.runtime,
    open: () => connection.createConfirmChannel(),
    onError: (error) => void errors.push(error),
  })
  return { connection, clock, publisher, errors }
}

test('messages are published mandatory and persistent, each with its own id', async () => {
  const { connection, publisher } = publisherOf()
  await publisher.publish(outgoing)
  await publisher.publish(outgoing)
  const [first, second] = connection.published()
  expect(first).toMatchObject({
    exchange: '',
    routingKey: 'orders.dead',
    options: { mandatory: true, persistent: true, messageId: 'm-1', headers: { mine: 1 } },
  })
  expect(first?.options.headers[PUBLISH_ID]).not.toBe(second?.options.headers[PUBLISH_ID])
  expect(connection.named('createConfirmChannel')).toHaveLength(1)
})

// Red when the confirm alone counts: it says that the broker has seen the message, not that a queue took it.
test('trap A2: a message that is returned is not published, whatever the confirm says', async () => {
  const { connection, publisher } = publisherOf()
  connection.answers.set('publish', (_exchange, routingKey, _content, options) => {
    const { headers } = options as { headers: object }
    const isMissing = routingKey === 'missing'
    if (isMissing) {
      connection.channels[0]?.emit('return', {
        fields: { replyText: 'NO_ROUTE' },
        properties: { headers },
      })
    }
    return undefined
  })
  const there = publisher.publish(outgoing)
  const missing = publisher.publish({ ...outgoing, routingKey: 'missing' })
  await expect(missing).rejects.toThrow(/no queue took .*'missing' \(NO_ROUTE\); declare it/)
  await expect(there).resolves.toBeUndefined()
  connection.channels[0]?.emit('return', { fields: {}, properties: { headers: undefined } })
})

test('a channel that closes reports its error, and the next message gets another channel', async () => {
  const { connection, publisher, errors } = publisherOf()
  connection.answers.set('publish', () => {
    const [channel] = connection.channels
    if (connection.channels.length > 1) return undefined
    channel?.emit('error', new Error('404 NOT_FOUND - no exchange'))
    channel?.emit('close')
    return new Error('channel closed')
  })
  await expect(publisher.publish(outgoing)).rejects.toThrow('404 NOT_FOUND - no exchange')
  expect(errors).toHaveLength(1)
  await publisher.publish(outgoing)
  expect(connection.named('createConfirmChannel')).toHaveLength(2)
})

test('a missing confirm is an error after ten seconds', async () => {
  const { connection, publisher, clock } = publisherOf()
  connection.answers.set('publish', () => 'no confirm')
  const published = expect(publisher.publish(outgoing)).rejects.toThrow(/10000 ms/)
  await clock.advance(10_000)
  await published
  expect(clock.timers).toBe(0)
})

test('a publish fails at once while the broker blocks publishers', async () => {
  const { connection, publisher } = publisherOf()
  publisher.blocked = 'low on memory'
  await expect(publisher.publish(outgoing)).rejects.toThrow(/low on memory/)
  expect(connection.published()).toEqual([])
})

test('the error of a publish that the client refuses says what to do', async () => {
  const { connection, publisher } = publisherOf()
  connection.answers.set('publish', () => {
    throw new RangeError('headers too large')
  })
  await expect(publisher.publish(outgoing)).rejects.toThrow(/declare it/)
})
