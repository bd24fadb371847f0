// @module-tag nightly

import type { OutgoingMessage } from '@onceward/core'
import { rabbitmq, skipped } from '@onceward/testing'
import { connect } from 'amqplib'
import { expect, test } from 'vitest'
import { Broker } from '../fixtures/broker.ts'
import { amqpDestination } from './destination.ts'

const message: OutgoingMessage = {
  ...{ id: 'm-1', source: 'billing', type: 'paid', headers: { trace: 't' } },
  ...{ contentType: 'application/json', payload: Buffer.from('{}') },
}
const { signal } = new AbortController()

// Red when a message is published without `mandatory`, or its return is not waited for.
test.skipIf(skipped('rabbitmq'))(
  'a message that reaches a queue is confirmed, and without a queue the destination is down',
  async () => {
    await using server = await rabbitmq()
    await using broker = await Broker.connect(server.connection.url)
    const queue = await broker.create()
    const open = () => connect(server.connection.url)
    const there = amqpDestination(open, { exchange: '', routingKey: queue })
    expect(await there.publish([message], signal)).toEqual([undefined])
    const { content, properties } = (await broker.get(queue)) ?? {}
    expect(content?.toString()).toBe('{}')
    expect(properties).toMatchObject({
      ...{ messageId: 'm-1', type: 'paid', contentType: 'application/json', deliveryMode: 2 },
      headers: { trace: 't', 'cloudEvents:id': 'm-1', 'cloudEvents:source': 'billing' },
    })
    const gone = amqpDestination(open, { exchange: '', routingKey: `${queue}-gone` })
    expect(await gone.publish([message], signal)).toEqual([
      { down: expect.objectContaining({ message: expect.stringContaining('no queue took') }) },
    ])
    await there.close?.()
    await gone.close?.()
  },
)

// Red before: RabbitMQ closed the channel, so that messages beside it were published again with each try.
test.skipIf(skipped('rabbitmq'))(
  'a header that RabbitMQ reads as a list is refused, and a channel that closes says nothing of the others',
  async () => {
    await using server = await rabbitmq()
    await using broker = await Broker.connect(server.connection.url)
    const queue = await broker.create()
    const open = () => connect(server.connection.url)
    const there = amqpDestination(open, { exchange: '', routingKey: queue })
    const withHeader = (name: string) => ({ ...message, headers: { [name]: 'a' } })
    expect(await there.publish([withHeader('CC'), message, withHeader('BCC')], signal)).toEqual([
      { refused: expect.any(Error) },
      undefined,
      { refused: expect.any(Error) },
    ])
    const exchange = amqpDestination(open, { exchange: `${queue}-gone`, routingKey: queue })
    expect(await exchange.publish([message], signal)).toEqual([{ down: expect.any(Error) }])
    await there.close?.()
    await exchange.close?.()
  },
)

test('what is no function that connects is refused', () => {
  const wrong = () => amqpDestination({} as never, { exchange: '', routingKey: 'a' })
  expect(wrong).toThrow('Expected amqpDestination to get a function that connects')
})
