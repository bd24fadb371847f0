import { createGuard, type Delivery } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { fromKafkaMessage, kafkaMessage } from '@onceward/kafka'
import { lambdaKafka, lambdaSqs } from '@onceward/lambda'
import { fromSqsMessage, sqsMessage } from '@onceward/sqs'
import { expect, test } from 'vitest'

/** The delivery that a function's handler gets. */
async function deliveryOf(invoke: (guard: ReturnType<typeof createGuard>) => Promise<unknown>) {
  const events: Delivery[] = []
  const guard = createGuard(
    { consumer: 'c', inbox: memoryInbox(), eventKey: () => 'k' },
    (event) => {
      events.push(event)
    },
  )
  await invoke(guard)
  await guard.close()
  return events[0] as Delivery
}

test('a message of SQS is the same delivery in a function and in consumeSqs, and either reads what the other stored', async () => {
  const system = {
    ...{ ApproximateReceiveCount: '3', SentTimestamp: '1763805600000', SenderId: 'AIDA' },
    ...{ MessageGroupId: 'g', SequenceNumber: '5' },
  }
  const queueUrl = 'https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo'
  const own = fromSqsMessage(
    {
      ...{ MessageId: 'm', ReceiptHandle: 'h', MD5OfBody: 'x', Body: '{"a":"schön"}' },
      Attributes: system,
      MessageAttributes: {
        'Idempotency-Key': { StringValue: 'k', DataType: 'String' },
        bytes: { BinaryValue: new Uint8Array([1, 255]), DataType: 'Binary' },
      },
    },
    queueUrl,
  )
  const record = {
    ...{ messageId: 'm', receiptHandle: 'h', md5OfBody: 'x', body: '{"a":"schön"}' },
    attributes: system,
    messageAttributes: {
      'Idempotency-Key': { stringValue: 'k', dataType: 'String', stringListValues: [] },
      bytes: { binaryValue: 'Af8=', dataType: 'Binary', binaryListValues: [] },
    },
    ...{ eventSource: 'aws:sqs', awsRegion: 'eu-central-1' },
    eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:orders.fifo',
  }
  const delivery = await deliveryOf((guard) => lambdaSqs(guard)({ Records: [record] }))
  const { envelope, ...rest } = own
  expect(delivery).toMatchObject(rest)
  expect(Buffer.from(delivery.envelope as Uint8Array)).toEqual(Buffer.from(envelope as Uint8Array))
  const stored = { ...delivery, raw: undefined, envelope: delivery.envelope }
  expect(sqsMessage(stored)).toEqual(own.raw)
})

test('a record of Kafka is the same delivery in a function and in wrapKafka, and either reads what the other stored', async () => {
  const message = {
    ...{ key: Buffer.from('o-1'), value: Buffer.from('{"a":1}'), timestamp: '1763805600000' },
    ...{ attributes: 0, offset: '7', headers: { trace: [Buffer.from('1'), Buffer.from('2')] } },
  }
  const own = fromKafkaMessage({ topic: 'orders', partition: 3, message })
  const record = {
    ...{ topic: 'orders', partition: 3, offset: 7, timestamp: 1_763_805_600_000 },
    ...{ key: 'by0x', value: Buffer.from('{"a":1}').toString('base64') },
    headers: [{ trace: [49] }, { trace: [50] }],
  }
  const event = { eventSource: 'aws:kafka', records: { 'orders-3': [record] } }
  const delivery = await deliveryOf((guard) => lambdaKafka(guard)(event))
  const { envelope, ...rest } = own
  expect(delivery).toMatchObject(rest)
  expect(Buffer.from(delivery.envelope as Uint8Array)).toEqual(Buffer.from(envelope as Uint8Array))
  const stored = { ...delivery, raw: undefined, envelope: delivery.envelope }
  expect(kafkaMessage(stored)).toEqual(own.raw)
})
