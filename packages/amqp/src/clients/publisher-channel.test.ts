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
