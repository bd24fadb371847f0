import type { Delivery } from '@onceward/core'
import { readEnvelope, registerEnvelopeReader, withEnvelope } from '@onceward/core/adapter'
import { type Fields, fieldsOf, textOf, toDate } from './fields.ts'
import { wrongEvent } from './invocation.ts'

/** A record in the shape of kafkajs, so that a handler reads `raw` as it does beside `consumeKafka`. */
export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  readonly message: {
    readonly key: Buffer | null
    readonly value: Buffer | null
    readonly timestamp: string
    readonly attributes: number
    readonly offset: string
    readonly headers: Readonly<Record<string, Buffer | Buffer[]>>
  }
}

/**
 * Makes a delivery of a record of a Kafka event, equal to the one that `wrapKafka` makes of the same record.
 *
 * Kafka does not say whether a record was delivered before, so the delivery counts as redelivered.
 */
export function toDelivery(given: unknown): Delivery {
  const record = toRecord(fieldsOf(given))
  const { message, partition, topic } = record
  const headers = toHeaders(message.headers)
  return withEnvelope(
    {
      body: message.value ?? new Uint8Array(),
      headers,
      source: {
        broker: 'kafka',
        queue: topic,
        position: `${partition}/${message.offset}`,
        incarnation: `:${message.timestamp}`,
      },
      contentType: headers['content-type'],
      contentEncoding: headers['content-encoding'],
      orderingKey: message.key === null ? undefined : toLane(message.key),
      producedAt: toDate(Number(message.timestamp) < 0 ? undefined : message.timestamp),
      redelivered: true,
      raw: record,
    },
    () => withoutValue(record),
  )
}

function toRecord({
  headers,
  key,
  offset,
  partition,
  timestamp,
  topic,
  value,
}: Fields): KafkaRecord {
  const isPlaced = typeof topic === 'string' && isInteger(partition) && isInteger(offset)
  if (!isPlaced || ![key, value].every(isBytes)) {
    throw wrongEvent('lambdaKafka', 'records of Kafka with `topic`, `partition` and `offset`')
  }
  return {
    topic,
    partition: Number(partition),
    message: {
      key: toBytes(key),
      value: toBytes(value),
      timestamp: textOf(timestamp) ?? NO_TIMESTAMP,
      attributes: 0,
      // The same record has the same position, however its offset is written.
      offset: String(Number(offset)),
      headers: toHeaderBytes(Array.isArray(headers) ? headers : []),
    },
  }
}

/** As Kafka says it. */
const NO_TIMESTAMP = '-1'

/** Decimal digits alone: JavaScript takes other texts for numbers too, such as an empty one. */
const isInteger = (value: unknown): boolean =>
  /^\d+$/.test(textOf(value) ?? '') && Number.isSafeInteger(Number(value))

const isBytes = (value: unknown): boolean => value == null || typeof value === 'string'

/** AWS writes bytes as signed numbers. */
const isByte = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= -128 && Number(value) <= 255

/** Null for a record without a key, and for a tombstone. */
const toBytes = (base64: unknown): Buffer | null =>
  typeof base64 === 'string' ? Buffer.from(base64, 'base64') : null

/** Headers come in their order. Repeated ones become a list, as in kafkajs; a value that is not a list of bytes is left out. */
function toHeaderBytes(headers: readonly unknown[]): KafkaRecord['message']['headers'] {
  const found = new Map<string, Buffer | Buffer[]>()
  for (const [name, bytes] of headers.flatMap((header) => Object.entries(fieldsOf(header)))) {
    if (!Array.isArray(bytes) || !bytes.every(isByte)) continue
    const value = Buffer.from(bytes)
    const before = found.get(name)
    found.set(name, before === undefined ? value : [before, value].flat())
  }
  return Object.fromEntries(found)
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function toText(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * Keys are bytes: two keys that are not valid UTF-8 must not become the same lane. A key of no bytes is one too, and the
 * guard takes empty text for no lane.
 */
const toLane = (key: Buffer): string => toText(key) || `base64:${key.toString('base64')}`

/** The last value of each name, if it is text. */
function toHeaders(headers: KafkaRecord['message']['headers']): Delivery['headers'] {
  const entries = Object.entries(headers).flatMap(([name, value]) => {
    const text = toText(Array.isArray(value) ? (value.at(-1) as Buffer) : value)
    return text === undefined ? [] : [[name.toLowerCase(), text]]
  })
  return Object.fromEntries(entries) as Delivery['headers']
}

/** The same envelope as that of @onceward/kafka, because either of them may read it. */
function withoutValue({ topic, partition, message }: KafkaRecord): object {
  const isBody = message.value !== null
  return { topic, partition, isBody, message: isBody ? { ...message, value: null } : message }
}

registerEnvelopeReader('kafka', ({ body, envelope = new Uint8Array() }): KafkaRecord => {
  const stored = readEnvelope(envelope) as KafkaRecord & { readonly isBody: boolean }
  const { topic, partition, isBody, message } = stored
  return { topic, partition, message: { ...message, value: isBody ? Buffer.from(body) : null } }
})
