import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs'
import { deadLetterOf } from '@onceward/testing/adapter'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { deadLetterMessage } from './dead-letter.ts'
import { sqsMessage, toDelivery } from './delivery.ts'

const queueUrl = 'https://sqs.eu-west-1.amazonaws.com/000000000000/orders'
const label = fc.constantFrom('', '.int', '.float', '.com.example.custom', '.ä')
const text = fc.string({ unit: 'binary', minLength: 1 })
/** Every type of attribute: String, Number and Binary, each with the user's own label. */
const attribute: fc.Arbitrary<MessageAttributeValue> = fc.oneof(
  fc.tuple(label, text).map(([own, StringValue]) => ({ DataType: `String${own}`, StringValue })),
  fc
    .tuple(label, fc.constantFrom('7', '-0', '1e126', '0.10', '12345678901234567890.123'))
    .map(([own, StringValue]) => ({ DataType: `Number${own}`, StringValue })),
  fc
    .tuple(label, fc.uint8Array({ minLength: 1 }))
    .map(([own, BinaryValue]) => ({ DataType: `Binary${own}`, BinaryValue })),
)
const name = fc.oneof(
  // `toStrictEqual` takes an attribute called "constructor" for the type of the object.
  fc.string({ minLength: 1, maxLength: 256 }).filter((own) => own !== 'constructor'),
  fc.constantFrom('Trace', 'trace', '__proto__', '7'),
)
const system = {
  ApproximateReceiveCount: fc.constantFrom('1', '3'),
  SentTimestamp: fc.constant('1700000000000'),
  AWSTraceHeader: text,
  MessageGroupId: text,
  MessageDeduplicationId: text,
  SequenceNumber: fc.constant('18849496460467696128'),
}
const message: fc.Arbitrary<Message> = fc.record(
  {
    MessageId: fc.uuid(),
    ReceiptHandle: text,
    Body: fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(fc.integer({ min: 0, max: 0xffff })).map((codes) => String.fromCharCode(...codes)),
    ),
    MD5OfBody: text,
    Attributes: fc.record(system, {
      requiredKeys: ['ApproximateReceiveCount'],
      noNullPrototype: true,
    }),
    MessageAttributes: fc
      .array(fc.tuple(name, attribute), { maxLength: 10 })
      .map((entries) => Object.fromEntries(entries)),
  },
  { requiredKeys: ['MessageId', 'Attributes'], noNullPrototype: true },
)

test('every message comes back whole from its stored delivery, and dies as itself', () => {
  fc.assert(
    fc.property(message, fc.constantFrom('', '.fifo'), (raw, kind) => {
      const live = toDelivery(raw, `${queueUrl}${kind}`)
      const stored = { ...live, raw: undefined, body: new Uint8Array(live.body) }
      expect(sqsMessage(stored)).toStrictEqual(raw)
      const target = `${queueUrl}-dead${kind}`
      expect(deadLetterMessage(deadLetterOf(stored), target)).toStrictEqual(
        deadLetterMessage(deadLetterOf(live), target),
      )
    }),
  )
})

test('a dead letter has every attribute of its message, with its type, and its trace', () => {
  fc.assert(
    fc.property(message, (raw) => {
      const dead = deadLetterMessage(deadLetterOf(toDelivery(raw, queueUrl)), queueUrl)
      for (const [name, value] of Object.entries(raw.MessageAttributes ?? {})) {
        const [, sent] =
          Object.entries(dead.MessageAttributes ?? {}).find(([sent]) => sent === name) ?? []
        expect(sent).toEqual(value)
      }
      const trace = raw.Attributes?.AWSTraceHeader
      expect(dead.MessageSystemAttributes?.AWSTraceHeader?.StringValue).toBe(trace)
      expect(Object.keys(dead.MessageAttributes ?? {}).length).toBeLessThanOrEqual(10)
    }),
  )
})

test('what a copy cannot have as its own is an attribute where there is room', () => {
  const system = { MessageGroupId: 'g-1', MessageDeduplicationId: 'd-1' }
  const Attributes = { ApproximateReceiveCount: '1', ...system }
  const raw = { MessageId: 'm-1', Body: '{}', Attributes }
  const dead = deadLetterMessage(deadLetterOf(toDelivery(raw, queueUrl)), `${queueUrl}.fifo`)
  expect(dead).toMatchObject({ MessageGroupId: 'g-1', MessageDeduplicationId: 'm-1' })
  expect(dead.MessageAttributes?.['x-onceward-deduplication-id']?.StringValue).toBe('d-1')
  expect(dead.MessageAttributes?.['x-onceward-group-id']?.StringValue).toBe('g-1')
})
