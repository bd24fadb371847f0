import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs'
import { ConfigurationError, type Delivery } from '@onceward/core'
import { isOrdered } from './options.ts'

/**
 * A message of SQS as a delivery. Message attributes become headers; binary ones stay in `raw` alone.
 *
 * @throws {@link ConfigurationError} when the message was received without its system attributes.
 */
export function toDelivery(message: Message, queueUrl: string): Delivery {
  const { Attributes: system, MessageId } = message
  if (system === undefined) throw withoutAttributes(message, queueUrl)
  const headers = toHeaders(message.MessageAttributes ?? {})
  const deliveryCount = toCount(system.ApproximateReceiveCount)
  const producedAt = toDate(system.SentTimestamp)
  const group = isOrdered(message, queueUrl) ? system.MessageGroupId : undefined
  const contentType = headers['content-type']
  return {
    body: Buffer.from(message.Body ?? '', 'utf8'),
    headers,
    source: {
      broker: 'sqs',
      queue: queueUrl,
      ...(MessageId === undefined ? {} : { position: MessageId }),
    },
    ...(contentType === undefined ? {} : { contentType }),
    ...(MessageId === undefined ? {} : { messageId: MessageId }),
    // On a standard queue the group is a share of the throughput (fair queues), not an order.
    ...(group === undefined ? {} : { orderingKey: group }),
    ...(producedAt === undefined ? {} : { producedAt }),
    ...(deliveryCount === undefined ? {} : { deliveryCount }),
    // Unknown means that it may have been: a suspect costs a statement, an uncounted poison the process.
    redelivered: deliveryCount !== 1,
    raw: message,
  }
}

/** The message that a delivery was made of; undefined for another broker's and for stored deliveries. */
export function sqsMessage(delivery: Delivery): Message | undefined {
  const { raw, source } = delivery
  if (source.broker !== 'sqs' || typeof raw !== 'object' || raw === null) return undefined
  return raw as Message
}

function toHeaders(
  attributes: Readonly<Record<string, MessageAttributeValue>>,
): Readonly<Record<string, string | undefined>> {
  const entries = Object.entries(attributes).flatMap(([name, { DataType, StringValue }]) =>
    StringValue === undefined || DataType?.startsWith('Binary')
      ? []
      : [[name.toLowerCase(), StringValue] as const],
  )
  // Not by assignment: an attribute may be called __proto__.
  return Object.fromEntries(entries)
}

function toCount(text: string | undefined): number | undefined {
  const count = Number(text)
  return Number.isSafeInteger(count) && count > 0 ? count : undefined
}

function toDate(text: string | undefined): Date | undefined {
  const date = new Date(Number(text))
  return text === undefined || Number.isNaN(date.getTime()) ? undefined : date
}

function withoutAttributes(message: Message, queueUrl: string): ConfigurationError {
  return new ConfigurationError(
    `Message ${message.MessageId} of ${queueUrl} was received without its attributes, so its receive count and ` +
      'group are unknown. Spread `receiveAttributes` of @onceward/sqs into the input of your ' +
      "ReceiveMessageCommand (sqs-consumer: `messageSystemAttributeNames: ['All'], messageAttributeNames: ['All']`).",
  )
}
