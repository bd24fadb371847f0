import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs'
import { sqsMessage } from '@onceward/sqs'
import { toDelivery } from '../../../packages/sqs/src/delivery.ts'
import { type MessageMaker, textOf } from '../../fuzz/bytes/message-maker.ts'

/** Messages as the AWS SDK receives them. */
export const sqsBytes: MessageMaker = {
  toDelivery: (name, body, headers) => {
    const attributes = headers.map(([header, value]) => [header, attributeOf(value)] as const)
    const message: Message = {
      MessageId: name,
      ReceiptHandle: name,
      Body: body.toString('utf8'),
      Attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1700000000000' },
      MessageAttributes: Object.fromEntries(attributes),
    }
    return toDelivery(message, name)
  },
  messageOf: sqsMessage,
}

function attributeOf(value: unknown): MessageAttributeValue {
  if (value instanceof Uint8Array) return { DataType: 'Binary', BinaryValue: value }
  if (typeof value === 'number') return { DataType: 'Number.float', StringValue: String(value) }
  return { DataType: 'String', StringValue: textOf(value) }
}
