import type { Delivery } from '@onceward/core'
import { fromSqsMessage, type SqsMessage } from '@onceward/sqs/message'
import { type Fields, fieldsOf } from './fields.ts'
import { wrongEvent } from './invocation.ts'

/** Makes a delivery of a record of SQS. `raw` is the message as the AWS SDK receives it. */
export function toDelivery(record: unknown): Delivery {
  const fields = fieldsOf(record)
  const { body, eventSource, eventSourceARN, messageId } = fields
  const isText = [body, messageId].every((each) => each === undefined || typeof each === 'string')
  if (eventSource !== 'aws:sqs' || !isText) throw wrongEvent('lambdaSqs', 'records of `aws:sqs`')
  return fromSqsMessage(toMessage(fields), toUrl(eventSourceARN))
}

/** The record with the names and types of the AWS SDK. */
function toMessage(fields: Fields): SqsMessage {
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
  return defined(given) as SqsMessage
}

function toAttribute({ stringValue, binaryValue, dataType }: Fields): object {
  const isBinary = typeof binaryValue === 'string'
  return defined({
    StringValue: typeof stringValue === 'string' ? stringValue : undefined,
    BinaryValue: isBinary ? new Uint8Array(Buffer.from(binaryValue, 'base64')) : undefined,
    DataType: dataType,
  })
}

const defined = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/** SQS sends system attributes as texts. Others must not become a message group or a time. */
const textsOf = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => typeof value === 'string'))

/** The queue's URL, as `consumeSqs` has it: the same queue must be the same place for a key made of positions. */
function toUrl(arn: unknown): string {
  if (typeof arn !== 'string') return 'unknown'
  const [, partition, , region, account, name] = arn.split(':')
  if (name === undefined) return arn
  const domain = partition === 'aws-cn' ? 'amazonaws.com.cn' : 'amazonaws.com'
  return `https://sqs.${region}.${domain}/${account}/${name}`
}
