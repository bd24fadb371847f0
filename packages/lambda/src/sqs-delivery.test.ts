import { ConfigurationError, type Delivery } from '@onceward/core'
import { expect, test } from 'vitest'
import { sqsRecord } from './fixtures/events.ts'
import { rawsOf } from './fixtures/replay.ts'
import { lambdaSqs } from './index.ts'
import { toDelivery } from './sqs-delivery.ts'

const deliveryOf = (more: object = {}): Delivery =>
  toDelivery({ ...sqsRecord({ id: 'm-1' }), ...more })

const attributesOf = (more: object): Delivery =>
  deliveryOf({ attributes: { ...sqsRecord().attributes, ...more } })

test('a delivery contains everything that SQS knows of a message, and raw is the message of the AWS SDK', () => {
  const { envelope, ...delivery } = deliveryOf({
    body: '{"order":"ä"}',
    md5OfMessageAttributes: 'x',
    messageAttributes: {
      'Content-Type': { stringValue: 'application/json', dataType: 'String' },
      'Content-Encoding': { stringValue: 'gzip', dataType: 'String' },
      Trace: { binaryValue: '/wA=', stringValue: null, dataType: 'Binary' },
    },
  })
  expect(envelope).toBeInstanceOf(Uint8Array)
  expect(delivery).toStrictEqual({
    body: Buffer.from('{"order":"ä"}'),
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    source: {
      broker: 'sqs',
      queue: 'https://sqs.eu-central-1.amazonaws.com/123456789012/orders',
      position: 'm-1',
    },
    contentType: 'application/json',
    contentEncoding: 'gzip',
    messageId: 'm-1',
    orderingKey: undefined,
    producedAt: new Date(1_763_805_600_000),
    deliveryCount: 1,
    redelivered: false,
    raw: {
      ...{ MessageId: 'm-1', ReceiptHandle: 'handle-m-1', Body: '{"order":"ä"}' },
      ...{ MD5OfBody: 'e4e68fb7bd0e697a0ae8f1bb342846b3', MD5OfMessageAttributes: 'x' },
      Attributes: sqsRecord().attributes,
      MessageAttributes: {
        'Content-Type': { StringValue: 'application/json', DataType: 'String' },
        'Content-Encoding': { StringValue: 'gzip', DataType: 'String' },
        Trace: { BinaryValue: Uint8Array.of(0xff, 0), DataType: 'Binary' },
      },
    },
  })
})

test.each([{ body: 5 }, { messageId: 5 }, { body: null }, { eventSource: 'aws:kinesis' }])(
  'a record with %j is no record of SQS',
  (more) => {
    expect(() => deliveryOf(more)).toThrow(ConfigurationError)
    expect(() => deliveryOf(more)).toThrow(/records of `aws:sqs`/)
  },
)

// Red when a value that is no text becomes an ordering key or a time, or throws as it is read.
test('system attributes are texts', () => {
  for (const odd of [5, true, null, ['g'], {}, { toString: '' }]) {
    const system = { MessageGroupId: odd, SentTimestamp: odd, ApproximateReceiveCount: odd }
    expect(attributesOf({ ...system, SequenceNumber: '5' })).toMatchObject({
      ...{ orderingKey: undefined, producedAt: undefined },
      ...{ deliveryCount: undefined, redelivered: true },
    })
  }
})

test('headers are texts with names in lower case, also one that is called __proto__', () => {
  const text = (stringValue: unknown) => ({ stringValue, dataType: 'String' })
  const messageAttributes = Object.fromEntries([
    ['Ce_Id', text('old')],
    ['ce_id', text('new')],
    ['__proto__', text('mine')],
    ['number', text(5)],
    ['none', text(null)],
    ['odd', null],
  ])
  const { headers } = deliveryOf({ messageAttributes })
  expect(Object.entries(headers)).toEqual([
    ['ce_id', 'new'],
    ['__proto__', 'mine'],
  ])
})

test.each([
  ['arn:aws:sqs:eu-west-1:1:orders', 'https://sqs.eu-west-1.amazonaws.com/1/orders'],
  ['arn:aws-cn:sqs:cn-north-1:1:orders', 'https://sqs.cn-north-1.amazonaws.com.cn/1/orders'],
  ['arn:aws:sqs:eu-west-1:1', 'arn:aws:sqs:eu-west-1:1'],
  ['orders', 'orders'],
  [undefined, 'unknown'],
  [{ toString: '' }, 'unknown'],
])('the queue %j is %s', (eventSourceARN, queue) => {
  expect(deliveryOf({ eventSourceARN }).source.queue).toBe(queue)
})

test.each(['{"text":"schön"}', '\ud800', ''])(
  'a replayed dead letter has its message in raw again: %j',
  async (body) => {
    const Records = [sqsRecord({ id: 'm-1', group: 'g', body })]
    const [first, again, ...rest] = await rawsOf((guard, isEmpty) =>
      lambdaSqs(guard)({ Records: isEmpty ? [] : Records }),
    )
    expect(first).toMatchObject({ MessageId: 'm-1', Body: body })
    expect(again).toStrictEqual(first)
    expect(rest).toEqual([])
  },
)

test('the body is stored once', () => {
  const body = 'x'.repeat(10_000)
  expect(deliveryOf({ body }).envelope?.byteLength).toBeLessThan(2_000)
})
