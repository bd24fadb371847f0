import type { Message } from '@aws-sdk/client-sqs'
import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { sqsMessage, toDelivery } from './delivery.ts'

const standard = 'https://sqs.eu-west-1.amazonaws.com/000000000000/orders'
const fifo = `${standard}.fifo`

function received(overrides: Partial<Message> = {}): Message {
  return {
    MessageId: 'm-1',
    ReceiptHandle: 'h-1',
    Body: '{"order":"ä"}',
    Attributes: {
      ApproximateReceiveCount: '3',
      SentTimestamp: '1700000000000',
      MessageGroupId: 'g-1',
    },
    MessageAttributes: {
      'Content-Type': { DataType: 'String', StringValue: 'application/json' },
      'Content-Encoding': { DataType: 'String', StringValue: 'br' },
      Trace: { DataType: 'Binary', BinaryValue: new Uint8Array([0xff, 0]) },
      count: { DataType: 'Number.int', StringValue: '7' },
    },
    ...overrides,
  }
}

test('a delivery contains everything that SQS knows of a message', () => {
  const message = received()
  expect(toDelivery(message, fifo)).toEqual({
    body: Buffer.from('{"order":"ä"}'),
    headers: { 'content-type': 'application/json', 'content-encoding': 'br', count: '7' },
    source: { broker: 'sqs', queue: fifo, position: 'm-1' },
    contentType: 'application/json',
    contentEncoding: 'br',
    messageId: 'm-1',
    orderingKey: 'g-1',
    producedAt: new Date(1_700_000_000_000),
    deliveryCount: 3,
    redelivered: true,
    envelope: expect.any(Uint8Array),
    raw: message,
  })
})

test.each([
  ['1', false],
  ['2', true],
  [undefined, true],
  ['many', true],
  ['0', true],
  ['-1', true],
  ['1.5', true],
])('a message with receive count %s is redelivered: %s', (count, redelivered) => {
  const Attributes = count === undefined ? {} : { ApproximateReceiveCount: count }
  const delivery = toDelivery(received({ Attributes }), standard)
  expect(delivery.redelivered).toBe(redelivered)
  // Only a whole number above zero is a delivery count.
  expect(delivery.deliveryCount).toBe(/^[1-9]$/.test(count ?? '') ? Number(count) : undefined)
})

test('a header is an attribute with text, unless its type is binary', () => {
  const MessageAttributes = {
    untyped: { StringValue: 'u' },
    binary: { DataType: 'Binary.png', StringValue: 'x' },
    none: { DataType: 'String' },
    nothing: {},
  } as unknown as NonNullable<Message['MessageAttributes']>
  const { headers } = toDelivery(received({ MessageAttributes }), standard)
  expect(Object.entries(headers)).toEqual([['untyped', 'u']])
})

test('only messages that have a number, and those of a queue whose name says FIFO, have an order', () => {
  const laneIn = (queueUrl: string, more: object) =>
    toDelivery(received({ Attributes: { MessageGroupId: 'g', ...more } }), queueUrl).orderingKey
  expect([laneIn(fifo, {}), laneIn(standard, { SequenceNumber: '1' })]).toEqual(['g', 'g'])
  expect(laneIn(standard, {})).toBeUndefined()
  expect(laneIn('https://orders.fifo.example/1/orders', {})).toBeUndefined()
})

test('an attribute named __proto__ is an ordinary header', () => {
  const MessageAttributes = JSON.parse('{"__proto__":{"DataType":"String","StringValue":"x"}}')
  const { headers } = toDelivery(received({ MessageAttributes }), standard)
  expect(Object.entries(headers)).toEqual([['__proto__', 'x']])
  expect(Object.getPrototypeOf(headers)).toBe(Object.prototype)
})

test('a message without body, times and attributes becomes a delivery', () => {
  const bare = { Attributes: { SentTimestamp: 'yesterday' } }
  expect(toDelivery(bare, standard)).toMatchObject({
    body: Buffer.alloc(0),
    headers: {},
    source: { broker: 'sqs', queue: standard },
  })
  expect(toDelivery(bare, standard).producedAt).toBeUndefined()
})

test('a message that was received without its system attributes is refused', () => {
  const message = received({ Attributes: undefined })
  expect(() => toDelivery(message, standard)).toThrow(ConfigurationError)
  expect(() => toDelivery(message, standard)).toThrow(/receiveAttributes/)
})

test('the original message is returned, also for stored deliveries, except for other brokers', () => {
  const message = received()
  const delivery = toDelivery(message, standard)
  expect(sqsMessage(delivery)).toBe(message)
  expect(sqsMessage({ ...delivery, raw: undefined })).toEqual(delivery.raw)
  expect(sqsMessage({ ...delivery, raw: null })).toEqual(delivery.raw)
  const bare = { ...delivery, raw: undefined, envelope: undefined }
  expect(sqsMessage(bare)).toBeUndefined()
  expect(sqsMessage({ ...bare, envelope: new Uint8Array([9]) })).toBeUndefined()
  const source = { broker: 'kafka', queue: 'orders' }
  expect(sqsMessage({ ...delivery, source })).toBeUndefined()
})
