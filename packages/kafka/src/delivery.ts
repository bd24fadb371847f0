import type { Delivery } from '@onceward/core'
import {
  copyDelivery,
  readEnvelope,
  registerEnvelopeReader,
  registerMessageTraits,
  withEnvelope,
} from '@onceward/core/adapter'

// What a record of Kafka is to a guard. It imports no client, because functions of AWS Lambda read records without one.

interface KafkaHeaders {
  readonly [key: string]: Buffer | string | (Buffer | string)[] | undefined
}

interface RecordFields {
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly timestamp: string
  readonly attributes: number
  readonly offset: string
}

/** A record as kafkajs gives it, with its topic and partition. */
export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  readonly message: RecordFields &
    ({ readonly headers: KafkaHeaders } | { readonly headers?: never; readonly size: number })
}

/**
 * Makes a delivery of a record. Headers that are not valid UTF-8 are only in `raw`; a tombstone has an empty body.
 *
 * The incarnation is the cluster and the record's own timestamp. A topic that was deleted and created again has other
 * timestamps at the offsets it uses again, and kafkajs supports no version of the protocol that has a topic's id.
 *
 * @param clusterId - Undefined if it is not known: see `wrapKafka`.
 */
export function toDelivery(
  received: KafkaRecord,
  clusterId: string | undefined,
  place?: Delivery['place'],
): Delivery {
  const record = withOwnValues(received)
  const { topic, partition, message } = record
  const headers = toHeaders(message.headers ?? {})
  return withEnvelope(
    {
      body: message.value ?? new Uint8Array(),
      headers,
      source: {
        broker: 'kafka',
        queue: topic,
        ...(clusterId !== undefined && { namespace: clusterId }),
        position: `${partition}/${message.offset}`,
        incarnation: `${clusterId ?? ''}:${message.timestamp}`,
      },
      contentType: headers['content-type'],
      contentEncoding: headers['content-encoding'],
      orderingKey: laneOf(message),
      producedAt: toDate(message.timestamp),
      raw: record,
      ...(place !== undefined && { place }),
    },
    () => withoutValue(record),
  )
}

/**
 * kafkajs puts the member of `Object.prototype` before the values of a header that is called like one (`constructor`,
 * `__proto__`). The record without them.
 */
function withOwnValues(record: KafkaRecord): KafkaRecord {
  const { headers } = record.message
  if (headers === undefined || !Object.keys(headers).some(isInherited)) return record
  const entries = Object.entries(headers).map(([name, value]) => {
    const isMixed = isInherited(name) && Array.isArray(value) && value[0] === Reflect.get({}, name)
    if (!isMixed) return [name, value] as const
    return [name, value.length === 2 ? value[1] : value.slice(1)] as const
  })
  return { ...record, message: { ...record.message, headers: Object.fromEntries(entries) } }
}

const isInherited = (name: string): boolean => name in Object.prototype

/**
 * Makes a delivery of a record that your own loop received and settles, such as the payload of `eachMessage`:
 * `await guard.process(fromKafkaMessage(payload))`. `wrapKafka` and `consumeKafka` settle by themselves.
 *
 * Kafka does not say whether a record was delivered before, so the delivery counts as redelivered: a record that
 * kills the process is then counted before it runs, for one more statement. The key that `position()` makes of it is
 * that of `wrapKafka`.
 */
export function fromKafkaMessage(record: KafkaRecord): Delivery {
  return copyDelivery(toDelivery(record, undefined), { redelivered: true })
}

/**
 * The record that a delivery was made of, also of a stored one. Undefined for another broker's deliveries, and for a
 * stored one whose envelope cannot be read.
 */
export const kafkaMessage: (delivery: Delivery) => KafkaRecord | undefined = registerEnvelopeReader(
  'kafka',
  readRecord,
)

/** The value is stored beside the envelope as the body. Only what differs from it is in the envelope: null, text. */
function withoutValue({ topic, partition, message }: KafkaRecord): object {
  const isBody = Buffer.isBuffer(message.value)
  return { topic, partition, isBody, message: isBody ? { ...message, value: null } : message }
}

function readRecord({ body, envelope = new Uint8Array() }: Delivery): KafkaRecord {
  const stored = readEnvelope(envelope) as KafkaRecord & { readonly isBody: boolean }
  const { topic, partition, isBody, message } = stored
  const value = isBody ? Buffer.from(body) : message.value
  return { topic, partition, message: { ...message, value } }
}

/** Another cluster, or the topic after it was created again, has other records at the same offsets. */
registerMessageTraits('kafka', (raw) => {
  const { key, timestamp } = (raw as KafkaRecord).message
  return [key?.toString('base64'), timestamp]
})

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function toText(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * The lane of a record is its key. Keys are bytes: two that are not valid UTF-8 must not become the same lane. A key
 * of no bytes is one too, and the guard takes empty text for no lane.
 */
export function laneOf({ key }: Pick<KafkaRecord['message'], 'key'>): string | undefined {
  if (key === null || typeof key === 'string') return key ?? undefined
  return toText(key) || `base64:${key.toString('base64')}`
}

function toHeaders(headers: KafkaHeaders): Delivery['headers'] {
  const entries: [string, string][] = []
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    // Repeated headers come as a list.
    const last = Array.isArray(value) ? value.at(-1) : value
    const text = last instanceof Uint8Array ? toText(last) : last
    if (typeof text === 'string') entries.push([name.toLowerCase(), text])
  }
  // Not by assignment, because a header may be called __proto__.
  return Object.fromEntries(entries)
}

function toDate(timestamp: string): Date | undefined {
  const date = new Date(Number(timestamp))
  return Number.isNaN(date.getTime()) || Number(timestamp) < 0 ? undefined : date
}
