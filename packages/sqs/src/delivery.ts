import { ConfigurationError, type Delivery } from '@onceward/core'
import { readEnvelope, registerEnvelopeReader, withEnvelope } from '@onceward/core/adapter'
import { isFifo } from './options.ts'

// What a message of SQS is to a guard. It imports no client, because functions of AWS Lambda read messages without one.

interface SqsAttribute {
  readonly DataType: string | undefined
  readonly StringValue?: string | undefined
  readonly BinaryValue?: Uint8Array | undefined
}

/** What SQS itself says of a message: the names that the AWS SDK knows. */
type SystemAttribute =
  | 'ApproximateFirstReceiveTimestamp'
  | 'ApproximateReceiveCount'
  | 'AWSTraceHeader'
  | 'DeadLetterQueueSourceArn'
  | 'MessageDeduplicationId'
  | 'MessageGroupId'
  | 'SenderId'
  | 'SentTimestamp'
  | 'SequenceNumber'

/** A message as the AWS SDK receives it. */
export interface SqsMessage {
  readonly MessageId?: string | undefined
  readonly ReceiptHandle?: string | undefined
  readonly MD5OfBody?: string | undefined
  readonly Body?: string | undefined
  readonly Attributes?: Readonly<Partial<Record<SystemAttribute, string>>> | undefined
  readonly MD5OfMessageAttributes?: string | undefined
  readonly MessageAttributes?: Readonly<Record<string, SqsAttribute>> | undefined
}

/**
 * Makes a delivery of an SQS message. Message attributes become headers; binary attributes are only in `raw`.
 *
 * @throws {@link ConfigurationError} when the message was received without its system attributes.
 */
export function toDelivery(message: SqsMessage, queueUrl: string): Delivery {
  const { Attributes: system, MessageId } = message
  if (system === undefined) throw withoutAttributes(message, queueUrl)
  const headers = toHeaders(message.MessageAttributes ?? {})
  const deliveryCount = toCount(system.ApproximateReceiveCount)
  const producedAt = toDate(system.SentTimestamp)
  // Only FIFO queues number their messages, so the URL may be any alias. On standard queues message groups mean fairness.
  const isOrdered = isFifo(queueUrl) || system.SequenceNumber !== undefined
  return withEnvelope(
    {
      body: Buffer.from(message.Body ?? '', 'utf8'),
      headers,
      source: {
        broker: 'sqs',
        queue: queueUrl,
        position: MessageId,
      },
      contentType: headers['content-type'],
      contentEncoding: headers['content-encoding'],
      messageId: MessageId,
      orderingKey: isOrdered ? system.MessageGroupId : undefined,
      producedAt,
      deliveryCount,
      // An unknown count is treated as a redelivery. A needless check costs a statement; an uncounted poison message can
      // kill the process.
      redelivered: deliveryCount !== 1,
      raw: message,
    },
    () => withoutBody(message),
  )
}

/**
 * Makes a delivery of a message that your own loop received and settles:
 * `await guard.process(fromSqsMessage(message, queueUrl))`. `wrapSqs` and `consumeSqs` settle by themselves.
 *
 * Receive with {@link receiveAttributes}.
 *
 * @throws {@link ConfigurationError} when the message was received without its system attributes.
 */
export function fromSqsMessage(message: SqsMessage, queueUrl: string): Delivery {
  return toDelivery(message, queueUrl)
}

/**
 * The message that a delivery was made of, also of a stored one. Undefined for another broker's deliveries, and for a
 * stored one whose envelope cannot be read.
 */
export const sqsMessage: (delivery: Delivery) => SqsMessage | undefined = registerEnvelopeReader(
  'sqs',
  readMessage,
)

/** The body is stored beside the envelope, as UTF-8. A body that UTF-8 cannot hold, or none, is in the envelope. */
function withoutBody(message: SqsMessage): object {
  const isBody = message.Body?.isWellFormed() === true
  return { isBody, message: isBody ? { ...message, Body: '' } : message }
}

function readMessage({ body, envelope = new Uint8Array() }: Delivery): SqsMessage {
  const stored = readEnvelope(envelope) as {
    readonly isBody: boolean
    readonly message: SqsMessage
  }
  const { isBody, message } = stored
  return isBody ? { ...message, Body: Buffer.from(body).toString('utf8') } : message
}

function toHeaders(
  attributes: Readonly<Record<string, SqsAttribute>>,
): Readonly<Record<string, string | undefined>> {
  const entries: [string, string][] = []
  for (const [name, { DataType, StringValue }] of Object.entries(attributes)) {
    const isText = StringValue !== undefined && !DataType?.startsWith('Binary')
    if (isText) entries.push([name.toLowerCase(), StringValue])
  }
  // Not by assignment, because an attribute may be called __proto__.
  return Object.fromEntries(entries)
}

function toCount(text: string | undefined): number | undefined {
  const count = Number(text)
  return Number.isSafeInteger(count) && count > 0 ? count : undefined
}

function toDate(text: string | undefined): Date | undefined {
  const date = new Date(Number(text))
  return Number.isNaN(date.getTime()) ? undefined : date
}

function withoutAttributes(message: SqsMessage, queueUrl: string): ConfigurationError {
  return new ConfigurationError(
    `Message ${message.MessageId} of ${queueUrl} was received without its attributes, so its receive count and ` +
      'group are unknown. Spread `receiveAttributes` of @onceward/sqs into the input of your ' +
      "ReceiveMessageCommand (sqs-consumer: `messageSystemAttributeNames: ['All'], messageAttributeNames: ['All']`).",
  )
}
