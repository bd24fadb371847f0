import { randomUUID } from 'node:crypto'
import type { Delivery } from '@onceward/core'
import {
  type DeliveryName,
  readEnvelope,
  registerDeliveryNames,
  registerEnvelopeReader,
  registerMessageTraits,
  registerMessageTypes,
  withEnvelope,
  writeEnvelope,
} from '@onceward/core/adapter'
import { isDeadLetterHeader, type Runtime } from '@onceward/core/ports'
import type { ConsumeMessage, MessageProperties, Options } from 'amqplib'
import type { DeliveryChannel } from './clients/amqplib.ts'
import { encodable, LARGEST_TIMESTAMP } from './clients/header-types.ts'
import { PUBLISH_ID } from './clients/publisher.ts'
import { readableText, textOf } from './clients/readable-text.ts'
import { ownSource } from './clients/virtual-host.ts'

/** A message that is not settled yet, and its channel. Instants are milliseconds on the monotonic clock. */
export interface Received {
  /** As amqplib delivered it: its tag is what is settled. */
  readonly message: ConsumeMessage
  readonly delivery: Delivery
  readonly channel: DeliveryChannel
  readonly receivedAtMs: number
  /** How often the message was held and run again. */
  readonly rounds: number
}

type Headers = Readonly<Record<string, unknown>>

/** Properties of the original that AMQP would change or refuse on a copy; the copy has them as headers. */
const CARRIED = {
  exchange: 'x-onceward-exchange',
  routingKey: 'x-onceward-routing-key',
  /** As a property it would end the wait early. */
  expiration: 'x-onceward-expiration',
  /** The broker refuses a copy whose publisher is another user. */
  userId: 'x-onceward-user-id',
  /** A copy is persistent, because it must outlive the broker's restart. 0: the original has no such property. */
  deliveryMode: 'x-onceward-delivery-mode',
  /** The broker would route the copy to these queues again. */
  cc: 'x-onceward-cc',
  /** Headers of the original that a copy must not have as such: the broker's own, and ours. */
  kept: 'x-onceward-kept-headers',
  /** How often the message was published to a delay queue. */
  deferrals: 'x-onceward-deferrals',
  /** What the delivery of a message without an id is called: its copy is the same message. */
  name: 'x-onceward-delivery-name',
} as const

const OURS: ReadonlySet<string> = new Set([...Object.values(CARRIED), PUBLISH_ID])

/** Headers that the broker writes about one stay in a queue; a copy starts without them (A9). */
const BROKERS = /^(x-death|x-(first|last)-death-.*|x-delivery-count|x-acquired-count)$/

/** They count this stay alone, also for the message itself. */
const COUNTERS: ReadonlySet<string> = new Set(['x-delivery-count', 'x-acquired-count'])

/**
 * Makes a delivery of a RabbitMQ message. Headers that are text, numbers, booleans or UTF-8 bytes become text; tables,
 * lists, other bytes and whole numbers above 2^53 are only in `raw`.
 */
export function toDelivery(received: ConsumeMessage, source: Delivery['source']): Delivery {
  const message = restored(received)
  const { properties, content } = message
  const contentType = readableText(properties.contentType)
  const contentEncoding = readableText(properties.contentEncoding)
  const producedAt = toDate(properties.timestamp)
  const orderingKey = readableText(properties.headers?.['x-order-key'])
  const messageId = composedId(properties)
  const deferrals = deferralsOf(received)
  return withEnvelope(
    {
      body: content,
      headers: toHeaders(properties.headers ?? {}),
      source,
      contentType,
      contentEncoding,
      messageId,
      orderingKey,
      producedAt,
      deliveryCount: countOf(received) + deferrals,
      // An earlier delivery of a deferred message may have run. A check costs a statement; an uncounted poison message
      // costs the process.
      redelivered: received.fields.redelivered || deferrals > 0,
      raw: message,
    },
    () => ({
      fields: message.fields,
      properties,
      ...(messageId === undefined && { id: nameOf(message)?.id }),
    }),
  )
}

/**
 * Makes a delivery of a message that your own loop received and settles:
 * `await guard.process(fromAmqpMessage(message, queue))`. `wrapAmqp` and `consumeAmqp` settle by themselves.
 */
export function fromAmqpMessage(message: ConsumeMessage, queue: string): Delivery {
  QUEUES.set(message, queue)
  return toDelivery(message, { broker: 'amqp', queue })
}

/** A message does not say which queue it came from. */
const QUEUES = new WeakMap<ConsumeMessage, string>()

/** The queue of a message that {@link fromAmqpMessage} was given. */
export const queueOf = (message: ConsumeMessage): string | undefined => QUEUES.get(message)

/** Registers a received message. */
export type Accept = (message: ConsumeMessage, channel: DeliveryChannel) => Received

/** @param source - What becomes known of it later is known of all messages too. */
export const createAccept =
  (source: Delivery['source'], runtime: Pick<Runtime, 'monotonic'>): Accept =>
  (message, channel) => {
    channel.delivered(message)
    const delivery = toDelivery(message, ownSource(source))
    return { message, channel, delivery, receivedAtMs: runtime.monotonic(), rounds: 0 }
  }

/**
 * The message that a delivery was made of, with the exchange, routing key and headers that its publisher gave it,
 * also after a stay in a delay queue, and also for a stored delivery. Undefined for another broker's deliveries, and for
 * a stored one whose envelope cannot be read.
 */
export const amqpMessage: (delivery: Delivery) => ConsumeMessage | undefined =
  registerEnvelopeReader('amqp', readMessage)

interface StoredMessage extends Omit<ConsumeMessage, 'content'> {
  readonly id?: string
}

function readMessage({ body, envelope = new Uint8Array() }: Delivery): ConsumeMessage {
  const { fields, id, properties } = readEnvelope(envelope) as StoredMessage
  const message = { fields, properties, content: Buffer.from(body) }
  names.set(message, id === undefined ? undefined : { id, isStored: true })
  return message
}

/** Undefined: the message was stored by a version that gave no names. */
const names = new WeakMap<ConsumeMessage, DeliveryName | undefined>()

/** Delivery tags start again in each channel, so a delivery is told apart by an id that is made when it is asked for. */
function nameOf(message: ConsumeMessage): DeliveryName | undefined {
  if (!names.has(message)) names.set(message, { id: randomUUID(), isStored: false })
  return names.get(message)
}

registerDeliveryNames('amqp', (raw) => nameOf(raw as ConsumeMessage))

/** A message has no position in its queue, and often no id. A stay in a delay queue does not change these. */
registerMessageTraits('amqp', (raw) => {
  const message = raw as ConsumeMessage
  const { exchange, routingKey } = message.fields
  return Buffer.from(writeEnvelope([exchange, routingKey, bareOptions(message)])).toString('hex')
})

registerMessageTypes('amqp', (raw) => readableText((raw as ConsumeMessage).properties.type))

/** How often a message was published to a delay queue. Its header may be a publisher's: a table has no number. */
export function deferralsOf({ properties }: ConsumeMessage): number {
  const count: unknown = properties.headers?.[CARRIED.deferrals]
  return Number.isSafeInteger(count) ? Math.max(0, Number(count)) : 0
}

/** Properties of a copy: the original's as far as a copy may have them, and where the original came from. */
export function copyOptions(message: ConsumeMessage, extra: Headers): Options.Publish {
  const { fields, properties } = message
  const cc: unknown = properties.headers?.['CC']
  const carried = {
    [CARRIED.exchange]: fields.exchange,
    [CARRIED.routingKey]: fields.routingKey,
    [CARRIED.expiration]: properties.expiration,
    [CARRIED.userId]: properties.userId,
    [CARRIED.deliveryMode]:
      properties.deliveryMode === 2 ? undefined : (properties.deliveryMode ?? 0),
    [CARRIED.cc]: cc,
  }
  const { headers, ...bare } = bareOptions(message)
  return { ...bare, headers: { ...headers, ...encodable({ ...defined(carried), ...extra }) } }
}

/** Properties of a copy without any header of ours. */
export function bareOptions({ properties }: ConsumeMessage): Options.Publish {
  const { CC: _cc, BCC: _bcc, ...headers } = properties.headers ?? {}
  const { contentType, contentEncoding, correlationId, replyTo } = properties
  const { messageId, type, appId, priority, timestamp } = properties
  const texts = { contentType, contentEncoding, correlationId, replyTo, messageId, type, appId }
  const kept = Object.entries(texts).map(([name, text]) => [name, toShortText(text)])
  return {
    ...defined({ ...Object.fromEntries(kept), priority, timestamp: toTimestamp(timestamp) }),
    headers: encodable(withoutOurs(headers)),
  }
}

const MOST_BYTES = 255
/** Of a character in UTF-8, for each of its one or two units in UTF-16. */
const BYTES_OF_UNIT = 3

/**
 * A text of at most 255 bytes was read as a longer one if it is not UTF-8: U+FFFD takes three bytes. amqplib refuses to
 * write that, so its end is left out. No key is made of such a text.
 */
const toShortText = (text: unknown): unknown =>
  typeof text === 'string' && Buffer.byteLength(text) > MOST_BYTES
    ? text.slice(0, MOST_BYTES / BYTES_OF_UNIT)
    : text

/** What amqplib reads as 2^64 it does not write. */
const toTimestamp = (timestamp: unknown): unknown =>
  typeof timestamp === 'number' ? Math.min(timestamp, LARGEST_TIMESTAMP) : timestamp

/** Properties of a stored delivery, whose message is gone. */
export function storedOptions(delivery: Delivery, extra: Headers): Options.Publish {
  const { headers, contentType, contentEncoding, messageId, producedAt } = delivery
  const timestamp = producedAt === undefined ? undefined : Math.floor(producedAt.getTime() / 1_000)
  return {
    ...defined({ contentType, contentEncoding, timestamp, ...splitId(messageId) }),
    headers: { ...withoutOurs(headers), ...extra },
  }
}

/** What a copy in a delay queue carries, so that the message comes back with exactly its own headers. */
export function deferralHeaders(received: ConsumeMessage, original: ConsumeMessage): Headers {
  const headers: Headers = original.properties.headers ?? {}
  // The broker removes BCC from what 0-9-1 publishes, but not from messages of other protocols.
  const { BCC: _bcc, ...copied } = withoutOurs(headers)
  const kept = Object.entries(headers).filter(
    ([name, value]) => value !== undefined && !Object.hasOwn(copied, name) && !COUNTERS.has(name),
  )
  const isNamed = composedId(original.properties) !== undefined
  const name = isNamed ? undefined : nameOf(original)
  return {
    [CARRIED.deferrals]: deferralsOf(received) + 1,
    ...(name !== undefined && { [CARRIED.name]: name.id }),
    ...(kept.length === 0 ? {} : { [CARRIED.kept]: Object.fromEntries(kept) }),
  }
}

/** The message as it was before it went through a delay queue. */
function restored(message: ConsumeMessage): ConsumeMessage {
  if (deferralsOf(message) === 0) return message
  const { fields, properties } = message
  const carried: Headers = properties.headers ?? {}
  const exchange = readableText(carried[CARRIED.exchange]) ?? fields.exchange
  const routingKey = readableText(carried[CARRIED.routingKey]) ?? fields.routingKey
  const cc = carried[CARRIED.cc]
  const kept = carried[CARRIED.kept]
  // A publisher may have written anything there, and the characters of a text or the bytes of a buffer are not headers.
  const isTable = typeof kept === 'object' && !Array.isArray(kept) && !ArrayBuffer.isView(kept)
  const headers = { ...withoutOurs(carried), ...defined({ CC: cc }), ...(isTable ? kept : {}) }
  const expiration = carried[CARRIED.expiration]
  const userId = carried[CARRIED.userId]
  const mode = carried[CARRIED.deliveryMode]
  const deliveryMode = mode === undefined ? properties.deliveryMode : mode || undefined
  const original = {
    content: message.content,
    fields: { ...fields, exchange, routingKey },
    properties: { ...properties, ...defined({ expiration, userId }), deliveryMode, headers },
  }
  const id = readableText(carried[CARRIED.name])
  if (id !== undefined) names.set(original, { id, isStored: false })
  return original
}

/** Drops headers that onceward wrote on an earlier copy, which would contradict the new ones. */
function withoutOurs(headers: Headers): Headers {
  const kept = Object.entries(headers).filter(([name, value]) => {
    const lowerCased = name.toLowerCase()
    return value !== undefined && !isOurs(lowerCased) && !BROKERS.test(lowerCased)
  })
  return Object.fromEntries(kept)
}

const isOurs = (name: string): boolean => OURS.has(name) || isDeadLetterHeader(name)

function defined(values: Headers): Record<string, unknown> {
  const present = Object.entries(values).filter(([, value]) => value !== undefined)
  return Object.fromEntries(present)
}

function toHeaders(headers: Headers): Delivery['headers'] {
  const entries: [string, string][] = []
  for (const name of Object.keys(headers)) {
    const text = name === PUBLISH_ID ? undefined : textOf(headers[name])
    if (text !== undefined) entries.push([name.toLowerCase(), text])
  }
  // Not by assignment, because a header may be called __proto__.
  return Object.fromEntries(entries)
}

/** Quorum queues count redeliveries; classic queues only mark that a delivery is not the first. */
function countOf({ fields, properties }: ConsumeMessage): number {
  const count: unknown = properties.headers?.['x-delivery-count']
  if (Number.isSafeInteger(count) && Number(count) > 0) return Number(count) + 1
  return fields.redelivered ? 2 : 1
}

/** Two publishers may use the same numbers, so the application id is part of the message id if it is set. */
function composedId({ messageId, appId }: MessageProperties): string | undefined {
  const id = textOf(messageId)
  if (id === undefined || appId === undefined || appId === '') return id
  const application = textOf(appId)
  if (application === undefined) return undefined
  return `${Buffer.byteLength(application)}:${application}:${id}`
}

function splitId(composed: string | undefined): Headers {
  const [, length = '', rest = ''] = /^(\d{1,3}):(.*)/s.exec(composed ?? '') ?? []
  const bytes = Buffer.from(rest)
  const end = Number(length)
  if (bytes[end] !== 0x3a) return { messageId: composed }
  return { appId: bytes.toString('utf8', 0, end), messageId: bytes.toString('utf8', end + 1) }
}

/** Seconds by the protocol; some publishers send milliseconds. */
function toDate(timestamp: unknown): Date | undefined {
  if (typeof timestamp !== 'number' || timestamp <= 0) return undefined
  const date = new Date(timestamp > 100_000_000_000 ? timestamp : timestamp * 1_000)
  return Number.isNaN(date.getTime()) ? undefined : date
}
