import { describe, expect, test } from 'vitest'
import { parseBroker } from './broker-address.ts'

const parsed = (text: string) => {
  const { params, ...rest } = parseBroker(text)
  return { ...rest, params: String(params) }
}

describe('the address of a broker', () => {
  test.each([
    ['kafka://host:9092', 'kafka', 'Kafka'],
    ['kafkas://host:9093', 'kafka', 'Kafka'],
    ['amqp://user@host/vhost', 'amqp', 'RabbitMQ'],
    ['amqps://host', 'amqp', 'RabbitMQ'],
    ['http://localhost:4566/0/orders', 'sqs', 'SQS'],
    ['https://sqs.eu-west-1.amazonaws.com/1/orders', 'sqs', 'SQS'],
    ['rediss://user@host:6380/1', 'redis-streams', 'Redis Streams'],
    ['nats://host:4222', 'nats', 'NATS'],
    ['tls://host:4222', 'nats', 'NATS'],
  ])('%s is one of %s', (text, name, title) => {
    expect(parsed(text)).toEqual({ name, title, url: text, params: '', guard: {} })
  })

  test('has parameters of the guard, and those of the adapter', () => {
    const guard = {
      consumer: 'billing',
      window: '15d',
      lease: '30s',
      deadline: '5s',
      attempts: '3',
    }
    const text = `amqp://host?queue=orders&${new URLSearchParams(guard)}&policy=a%20b`
    expect(parsed(text)).toMatchObject({
      ...{ url: 'amqp://host', params: 'queue=orders&policy=a+b', guard },
    })
  })

  test('may say things that are empty, or that have a question mark', () => {
    expect(parsed('kafka://host?topic=a?b&consumer=')).toMatchObject({
      ...{ url: 'kafka://host', params: 'topic=a%3Fb', guard: { consumer: '' } },
    })
  })

  test.each(['', 'host:9092', 'stomp://:s3cret@host', 'AMQP://host', 'amqp:/host', ' amqp://host'])(
    '%j is none, and is not repeated',
    (text) => {
      expect(() => parseBroker(text)).toThrow(
        expect.objectContaining({
          ...{ exitCode: 2, message: expect.stringMatching(/^Expected --broker to be kafka:/) },
        }),
      )
    },
  )
})
