import { headers as createHeaders, type MsgHdrs } from '@nats-io/transport-node'
import { ConfigurationError, type Delivery } from '@onceward/core'
import { readEnvelope, registerEnvelopeReader, withEnvelope } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { NatsDeliveryInfo, NatsMessage, Pulled, Terms } from './client.ts'
import type { Settings } from './options.ts'

/** How long a message is this consumer's. Its copies in one process share it. */
export interface Claim {
  /** Where its verbs go. */
  reply: string
  /** From then on the server may have given it to another consumer. On the monotonic clock, ms. */
  untilMs: number
}

/** A message in hand. */
export interface Received {
  readonly message: NatsMessage
  readonly delivery: Delivery
  readonly claim: Claim
  /** How often it was held already, to wait. */
  readonly rounds: number
}

export type OrderingSettings = Partial<Pick<Settings, 'orderingHeader' | 'orderingSubject'>>

/** The header by which a stream drops what was published twice. */
export const MESSAGE_ID = 'Nats-Msg-Id'

/** Makes a delivery of a message. Of a repeated header the last value counts; all are in `raw`. */
export function toDelivery(
  message: NatsMessage,
  ordering: OrderingSettings,
  incarnation?: string,
): Delivery {
  const { info, data } = message
  const headers = headersOf(message.headers)
  return withEnvelope(
    {
      body: data,
      headers,
      source: {
        broker: 'nats',
        queue: info.stream,
        position: String(info.streamSequence),
        incarnation,
      },
      contentType: headers['content-type'],
      contentEncoding: headers['content-encoding'],
      messageId: headers['nats-msg-id'],
      orderingKey: orderingKeyOf(message.subject, headers, ordering),
      producedAt: dateOf(info.timestampNanos),
      deliveryCount: info.deliveryCount,
      redelivered: info.deliveryCount !== 1,
      raw: message,
    },
    () => withoutBody(message),
  )
}

/**
 * Makes a delivery of a message that your own loop received and settles:
 * `await guard.process(fromNatsMessage(message))`. `wrapNats` and `consumeNats` settle by themselves.
 */
export function fromNatsMessage(
  message: NatsMessage,
  options: {
    readonly orderingSubject?: true | number | undefined
    readonly orderingHeader?: string | undefined
  } = {},
): Delivery {
  const { orderingSubject, orderingHeader } = options
  return toDelivery(message, { orderingSubject, orderingHeader: orderingHeader?.toLowerCase() })
}

/**
 * The message that a delivery was made of, also of a stored one. Undefined for another broker's deliveries, and for a
 * stored one whose envelope cannot be read.
 */
export const natsMessage: (delivery: Delivery) => NatsMessage | undefined = registerEnvelopeReader(
  'nats',
  readMessage,
)

interface StoredMessage {
  readonly subject: string
  readonly headers: readonly (readonly [name: string, values: readonly string[]])[] | undefined
  readonly info: NatsDeliveryInfo
}

/** The body is stored beside the envelope. */
function withoutBody({ subject, headers, info }: NatsMessage): StoredMessage {
  const { stream, consumer, deliveryCount, streamSequence, timestampNanos } = info
  return {
    subject,
    headers: headers && [...headers],
    info: { stream, consumer, deliveryCount, streamSequence, timestampNanos },
  }
}

function readMessage({ body, envelope = new Uint8Array() }: Delivery): NatsMessage {
  const { headers, ...rest } = readEnvelope(envelope) as StoredMessage
  return { ...rest, headers: headers && toHeaders(headers), data: body }
}

function toHeaders(named: NonNullable<StoredMessage['headers']>): MsgHdrs {
  const made = createHeaders()
  for (const [name, values] of named) for (const value of values) made.append(name, value)
  return made
}

/** All headers with all their values, in the case in which they were written. */
export function headerList(
  message: NatsMessage | undefined,
): readonly (readonly [string, string])[] {
  return [...(message?.headers ?? [])].flatMap(([name, values]) =>
    values.map((value) => [name, value] as const),
  )
}

function headersOf(headers: MsgHdrs | undefined): Delivery['headers'] {
  const entries = [...(headers ?? [])].map(([name, values]): [string, string] => [
    name.toLowerCase(),
    values.at(-1) ?? '',
  ])
  // Not by assignment, because a header may be called __proto__.
  return Object.fromEntries(entries)
}

/** A message without the token or the header has no lane. */
function orderingKeyOf(
  subject: string,
  headers: Delivery['headers'],
  { orderingSubject, orderingHeader }: OrderingSettings,
): string | undefined {
  if (orderingSubject === true) return subject
  if (orderingSubject !== undefined) return subject.split('.')[orderingSubject - 1]
  return orderingHeader === undefined ? undefined : headers[orderingHeader]
}

function dateOf(nanos: number): Date | undefined {
  const date = new Date(nanos / 1e6)
  return nanos > 0 && !Number.isNaN(date.getTime()) ? date : undefined
}

/**
 * Registers received messages, without those that are in hand already.
 *
 * @param sentAtMs - The server sent them after this moment.
 */
export type Accept = (messages: readonly Pulled[], sentAtMs: number) => readonly Received[]

export interface Registry {
  /** A message that is in hand and came again: its copy is dropped, and it is this consumer's for longer. */
  again(message: Pulled, untilMs: number): boolean
  hold(received: Received): void
}

export const createAccept =
  (
    settings: OrderingSettings,
    owned: Registry,
    { terms, runtime }: { readonly terms: Terms; readonly runtime: Pick<Runtime, 'monotonic'> },
  ): Accept =>
  (messages, sentAtMs) => {
    const untilMs = sentAtMs + terms.ackWaitMs
    // This process was frozen since. Another consumer has them, or will have them.
    if (runtime.monotonic() >= untilMs) return []
    return messages.flatMap((message) => {
      if (owned.again(message, untilMs)) return []
      const delivery = toDelivery(message, settings, terms.incarnation)
      const claim = { reply: message.reply, untilMs }
      const received: Received = { message, delivery, claim, rounds: 0 }
      owned.hold(received)
      return [received]
    })
  }

/** A message of the user's own loop, which has the subject for its verbs. @throws {@link ConfigurationError} */
export function toPulled(message: NatsMessage): Pulled {
  const { reply } = Object(message) as Partial<Pulled>
  if (infoOf(reply) !== undefined) return message as Pulled
  throw new ConfigurationError(
    'Expected a message of a pull consumer of JetStream (JsMsg), with the subject for its acks.',
  )
}

/** Read from the subject for acks, which older servers write without domain and account. */
export function infoOf(reply: unknown): NatsDeliveryInfo | undefined {
  const tokens = String(reply).split('.')
  const own = tokens.length === 9 ? tokens.slice(2) : tokens.slice(4)
  if (tokens[0] !== '$JS' || tokens[1] !== 'ACK' || own.length < 7) return undefined
  const [stream = '', consumer = '', count, sequence, , nanos] = own
  return {
    ...{ stream, consumer, deliveryCount: Number(count) },
    ...{ streamSequence: Number(sequence), timestampNanos: Number(nanos) },
  }
}
