import { ConfigurationError } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { setUp } from './fixtures/billing.ts'
import {
  lambdaDynamoDbStream,
  lambdaEventBridge,
  lambdaKafka,
  lambdaKinesis,
  lambdaSns,
  lambdaSqs,
} from './index.ts'

const data = Buffer.from('{"orderId":"o-1"}').toString('base64')

const RABBITMQ = {
  eventSource: 'aws:rmq',
  eventSourceArn: 'arn:aws:mq:eu-central-1:123456789012:broker:shop:b-1',
  rmqMessagesByQueue: {
    'orders::/': [{ basicProperties: { messageId: null }, redelivered: false, data }],
  },
}
const ACTIVEMQ = {
  eventSource: 'aws:mq',
  eventSourceArn: 'arn:aws:mq:eu-central-1:123456789012:broker:shop:b-2',
  messages: [{ messageID: 'ID:b-2', messageType: 'jms/text-message', data }],
}
const { eventSource: _, ...RABBITMQ_ALONE } = RABBITMQ
const { eventSource: __, ...ACTIVEMQ_ALONE } = ACTIVEMQ

const FUNCTIONS = {
  lambdaSqs,
  lambdaKafka,
  lambdaSns,
  lambdaEventBridge,
  lambdaKinesis,
  lambdaDynamoDbStream,
}

// Red when a batch is one event without a key: it is recorded as dead, the function succeeds and Amazon MQ deletes it.
describe.each(Object.entries(FUNCTIONS))('%s', (name, wrap) => {
  test.each([
    ['RabbitMQ', RABBITMQ, /RabbitMQ of Amazon MQ: consume its queue with consumeAmqp/],
    ['RabbitMQ, by its field', RABBITMQ_ALONE, /`aws:rmq`/],
    ['ActiveMQ', ACTIVEMQ, /ActiveMQ of Amazon MQ: give each message to guard.process/],
    ['ActiveMQ, by its messages', ACTIVEMQ_ALONE, /`aws:mq`/],
    ['DocumentDB', { eventSource: 'aws:docdb', events: [{}] }, /an event of `aws:docdb`.*trigger/],
  ])('refuses a batch of %s by name', async (_source, event, message) => {
    const { guard } = setUp()
    const invoking = wrap(guard)(event as never)
    await expect(invoking).rejects.toThrow(ConfigurationError)
    await expect(invoking).rejects.toThrow(message)
    await expect(invoking).rejects.toThrow(name)
  })
})

test('what a rule makes of its input may have such a field', async () => {
  const { guard } = setUp({ eventKey: () => 'k' })
  for (const event of [{ messages: ['a'] }, { eventSource: 's3.amazonaws.com' }]) {
    await expect(lambdaEventBridge(guard)(event)).resolves.toBeUndefined()
  }
})
