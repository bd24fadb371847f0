import { systemRuntime } from '@onceward/core/ports'
import { turn } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message, RecordingChannel, RecordingConnection } from '../fixtures/recording-channel.ts'
import { ConsumerChannel, DeliveryChannel } from './amqplib.ts'

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
test('trap T18: an ack never covers a lower message that is not settled', async () => {
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

// Its `close` event may have come before anybody listened. A channel that ended twice is lost once: see the receiver.
test('a channel whose consumer is refused ends with that error', async () => {
  const connection = new RecordingConnection()
  const refused = new Error('404 NOT_FOUND')
  connection.answers.set('consume', () => {
    throw refused
  })
  const ends: unknown[] = []
  const recording = new RecordingChannel(connection)
  const channel = new ConsumerChannel(recording as never, systemRuntime, (error) => {
    ends.push(error)
  })
  const consuming = channel.consume('orders', 1, {}, () => undefined)
  await expect(consuming).rejects.toBe(refused)
  await turn()
  expect(ends).toEqual([refused])
  expect(channel.deliveries.isOpen).toBe(false)
})
