import type { Delivery } from '@onceward/core'
import { readEnvelope, registerEnvelopeReader, withEnvelope } from '@onceward/core/adapter'
import { type Fields, fieldsOf, toDate } from './fields.ts'
import { wrongEvent } from './invocation.ts'

/** A message in the shape of the AWS SDK, so that a handler reads `raw` as it does beside `consumeSqs`. */
export interface Message {
  readonly MessageId?: string
  readonly ReceiptHandle?: string
  readonly Body?: string
  readonly Attributes: Readonly<Record<string, string | undefined>>
  readonly MessageAttributes?: Readonly<Record<string, object>>
}

/** Only FIFO queues number their messages. On other queues, message groups mean fairness and not order. */
export const groupOf = ({
  Attributes: { MessageGroupId, SequenceNumber },
}: Message): string | undefined => (SequenceNumber === undefined ? undefined : MessageGroupId)

/** Makes a delivery of a record of SQS, equal to the one that `consumeSqs` makes of the same message. */
export function toDelivery(record: unknown): Delivery {
  const fields = fieldsOf(record)
  const { body, eventSource, messageId } = fields
  const isText = [body, messageId].every((each) => each === undefined || typeof each === 'string')
  if (eventSource !== 'aws:sqs' || !isText) throw wrongEvent('lambdaSqs', 'records of `aws:sqs`')
  const message = toMessage(fields)
  const { Attributes: system, Body = '', MessageId } = message
  const headers = toHeaders(message.MessageAttributes ?? {})
  const count = Number(system['ApproximateReceiveCount'])
  const deliveryCount = Number.isSafeInteger(count) && count > 0 ? count : undefined
  return withEnvelope(
    {
      body: Buffer.from(Body, 'utf8'),
      headers,
      source: { broker: 'sqs', queue: toUrl(fields['eventSourceARN']), position: MessageId },
      contentType: headers['content-type'],
      contentEncoding: headers['content-encoding'],
      messageId: MessageId,
      orderingKey: groupOf(message),
      producedAt: toDate(system['SentTimestamp']),
      deliveryCount,
      // An unknown count is treated as a redelivery.
      redelivered: deliveryCount !== 1,
      raw: message,
    },
    () => withoutBody(message),
  )
}

/** The record with the names and types of the AWS SDK. */
function toMessage(fields: Fields): Message {
  const { messageId, receiptHandle, body, attributes } = fields
  const { md5OfBody, md5OfMessageAttributes, messageAttributes } = fields
  const entries = Object.entries(fieldsOf(messageAttributes))
  const given = {
    MessageId: messageId === '' ? undefined : messageId,
    ReceiptHandle: receiptHandle,
    MD5OfBody: md5OfBody,
    Body: body,
    Attributes: textsOf(fieldsOf(attributes)),
    MD5OfMessageAttributes: md5OfMessageAttributes,
    MessageAttributes:
      entries.length === 0
        ? undefined
        : Object.fromEntries(entries.map(([name, value]) => [name, toAttribute(fieldsOf(value))])),
  }
  return defined(given) as unknown as Message
}

function toAttribute({ stringValue, binaryValue, dataType }: Fields): object {
  const isBinary = typeof binaryValue === 'string'
  return defined({
    StringValue: stringValue ?? undefined,
    BinaryValue: isBinary ? new Uint8Array(Buffer.from(binaryValue, 'base64')) : undefined,
    DataType: dataType,
  })
}

const defined = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/** SQS sends system attributes as texts. Others must not become a message group or a time. */
const textsOf = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => typeof value === 'string'))

/** Text attributes only. Not by assignment, because an attribute may be called __proto__. */
function toHeaders(attributes: Readonly<Record<string, object>>): Delivery['headers'] {
  const entries = Object.entries(attributes).flatMap(([name, attribute]) => {
    const { StringValue } = fieldsOf(attribute)
    return typeof StringValue === 'string' ? [[name.toLowerCase(), StringValue]] : []
  })
  return Object.fromEntries(entries) as Delivery['headers']
}

/** The queue's URL, as `consumeSqs` has it: the same queue must be the same place for a key made of positions. */
function toUrl(arn: unknown): string {
  if (typeof arn !== 'string') return 'unknown'
  const [, partition, , region, account, name] = arn.split(':')
  if (name === undefined) return arn
  const domain = partition === 'aws-cn' ? 'amazonaws.com.cn' : 'amazonaws.com'
  return `https://sqs.${region}.${domain}/${account}/${name}`
}

/** The same envelope as that of @onceward/sqs, because either of them may read it. */
function withoutBody(message: Message): object {
  const isBody = message.Body?.isWellFormed() === true
  return { isBody, message: isBody ? { ...message, Body: '' } : message }
}

registerEnvelopeReader('sqs', ({ body, envelope = new Uint8Array() }): Message => {
  const stored = readEnvelope(envelope) as { readonly isBody: boolean; readonly message: Message }
  const { isBody, message } = stored
  return isBody ? { ...message, Body: Buffer.from(body).toString('utf8') } : message
})
