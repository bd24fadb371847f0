import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs'
import { ConfigurationError, type Delivery } from '@onceward/core'
import { readEnvelope, registerEnvelopeReader, withEnvelope } from '@onceward/core/adapter'
import { isOrdered, type Settings } from './options.ts'

/** A received message. Instants are milliseconds on the monotonic clock. */
export interface Received {
  readonly message: Message
  readonly handle: string
  readonly delivery: Delivery
  /** Taken before the request, because SQS counts its 12 hours from a moment during it. */
  readonly receivedAtMs: number
  readonly hiddenUntilMs: number
  /** Order of arrival in this process. */
  readonly sequence: number
}

/**
 * Makes a delivery of an SQS message. Message attributes become headers; binary attributes are only in `raw`.
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
      // On standard queues message groups mean fairness, not order.
      orderingKey: group,
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
export function fromSqsMessage(message: Message, queueUrl: string): Delivery {
  return toDelivery(message, queueUrl)
}

/** Registers received messages. `receivedAtMs` is from before their request, on the monotonic clock. */
export type Accept = (messages: readonly Message[], receivedAtMs: number) => readonly Received[]

/**
 * Makes the function that registers received messages and keeps them hidden. The function throws
 * {@link ConfigurationError} when a message was received without its attributes; its batch is not kept hidden then.
 */
export function createAccept(
  { queueUrl, visibilityMs }: Pick<Settings, 'queueUrl' | 'visibilityMs'>,
  ticker: { hold(received: Received): void },
): Accept {
  let sequence = 0
  return (messages, receivedAtMs) => {
    const received = messages.map((message): Received => {
      sequence += 1
      const hiddenUntilMs = receivedAtMs + visibilityMs
      const delivery = toDelivery(message, queueUrl)
      const handle = message.ReceiptHandle ?? ''
      return { message, handle, delivery, receivedAtMs, hiddenUntilMs, sequence }
    })
    for (const each of received) ticker.hold(each)
    return received
  }
}

/**
 * The message that a delivery was made of, also of a stored one. Undefined for another broker's deliveries, and for a
 * stored one whose envelope cannot be read.
 */
export function sqsMessage(delivery: Delivery): Message | undefined {
  const { raw, source } = delivery
  if (source.broker !== 'sqs') return undefined
  if (typeof raw === 'object' && raw !== null) return raw as Message
  try {
    return delivery.envelope === undefined ? undefined : readMessage(delivery)
  } catch {
    return undefined
  }
}

/** The body is stored beside the envelope, as UTF-8. A body that UTF-8 cannot hold, or none, is in the envelope. */
function withoutBody(message: Message): object {
  const isBody = message.Body?.isWellFormed() === true
  return { isBody, message: isBody ? { ...message, Body: '' } : message }
}

function readMessage({ body, envelope = new Uint8Array() }: Delivery): Message {
  const stored = readEnvelope(envelope) as { readonly isBody: boolean; readonly message: Message }
  const { isBody, message } = stored
  return isBody ? { ...message, Body: Buffer.from(body).toString('utf8') } : message
}

registerEnvelopeReader('sqs', readMessage)

function toHeaders(
  attributes: Readonly<Record<string, MessageAttributeValue>>,
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

function withoutAttributes(message: Message, queueUrl: string): ConfigurationError {
  return new ConfigurationError(
    `Message ${message.MessageId} of ${queueUrl} was received without its attributes, so its receive count and ` +
      'group are unknown. Spread `receiveAttributes` of @onceward/sqs into the input of your ' +
      "ReceiveMessageCommand (sqs-consumer: `messageSystemAttributeNames: ['All'], messageAttributeNames: ['All']`).",
  )
}
