import { Clock, turn } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { RecordingConnection } from '../fixtures/recording-channel.ts'
import { type Outgoing, Publisher } from './publisher.ts'

const outgoing: Outgoing = {
  kind: 'deferral',
  of: {},
  exchange: '',
  routingKey: 'orders.dead',
  content: Buffer.from('{}'),
  options: { headers: {} },
  remedy: 'declare it',
}

function publisherOf() {
  const connection = new RecordingConnection()
  const clock = new Clock()
  const publisher = new Publisher({
    runtime: clock.runtime,
    open: () => connection.createConfirmChannel(),
    onError: () => undefined,
  })
  return { connection, clock, publisher }
}

test('a close waits for the channel, but for no longer than two seconds', async () => {
  const { connection, clock, publisher } = publisherOf()
  await publisher.close()
  await publisher.publish(outgoing)
  const [channel] = connection.channels
  if (channel === undefined) throw new Error('no channel')
  channel.close = () => {
    connection.record('close', [])
    return new Promise(() => undefined)
  }
  let isClosed = false
  const closed = publisher.close().then(() => {
    isClosed = true
  })
  await clock.advance(1_999)
  expect([connection.named('close').length, isClosed]).toEqual([1, false])
  await clock.advance(1)
  await closed
  expect(clock.timers).toBe(0)
})

// Red when it does not count for the bare one: its dead letter is nowhere, and the original is acked.
test('a message that is returned without an id counts for those that were published without one', async () => {
  const { connection, publisher } = publisherOf()
  connection.answers.set('publish', () => 'no confirm')
  const bare = publisher.publish({ ...outgoing, of: {}, isBare: true })
  const other = publisher.publish({ ...outgoing, of: {} })
  const refused = expect(bare).rejects.toThrow(/no queue took/)
  await turn()
  connection.channels[0]?.emit('return', {
    fields: { replyText: 'NO_ROUTE' },
    properties: { headers: {} },
  })
  for (const confirmed of connection.unconfirmed) confirmed(null)
  await refused
  await expect(other).resolves.toBeUndefined()
})

// amqplib reads several frames at once: a channel may be closed before the promise of its opening resolves.
test('a channel that was closed before anybody listened to it is replaced', async () => {
  const { connection, publisher } = publisherOf()
  connection.answers.set('publish', () => {
    throw new Error('Channel closed')
  })
  await expect(publisher.publish(outgoing)).rejects.toThrow('Channel closed')
  connection.answers.delete('publish')
  await publisher.publish(outgoing)
  expect(connection.named('createConfirmChannel')).toHaveLength(2)
})

// Red when it is sent again: each time the server closes the channel, with the other messages on it.
test.each(['', 'configured '])(
  'a message above the %slimit of the server is sent once, and then refused with what to do',
  async (configured) => {
    const { connection, publisher } = publisherOf()
    const why = `406 (PRECONDITION-FAILED) "message size 9 is larger than ${configured}max size 8"`
    const closed = new Error(`Channel closed by server: ${why}`)
    connection.answers.set('publish', () => {
      connection.channels[0]?.emit('error', closed)
      connection.channels[0]?.emit('close')
      return new Error('channel closed')
    })
    const large = { ...outgoing, content: Buffer.alloc(9) }
    await expect(publisher.publish(large)).rejects.toBe(closed)
    connection.answers.delete('publish')
    await publisher.publish({ ...outgoing, content: Buffer.alloc(8) })
    const refused = /9 bytes.* at most 8: raise its `max_message_size`/
    await expect(publisher.publish(large)).rejects.toThrow(refused)
    expect(connection.named('publish')).toHaveLength(2)
  },
)

// Red when the end of an old channel forgets the present one: it stays open, and nobody closes it.
test('the late end of an earlier channel leaves the present one in use', async () => {
  const { connection, publisher } = publisherOf()
  await publisher.publish(outgoing)
  const [first] = connection.channels
  first?.emit('close')
  await publisher.publish(outgoing)
  first?.emit('close')
  await publisher.publish(outgoing)
  expect(connection.named('createConfirmChannel')).toHaveLength(2)
})
