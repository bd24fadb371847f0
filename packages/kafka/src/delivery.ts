import type { Delivery } from '@onceward/core'
import type { EachMessagePayload, IHeaders } from 'kafkajs'

/** A record as kafkajs gives it, with its topic and partition. */
export type KafkaRecord = Pick<EachMessagePayload, 'topic' | 'partition' | 'message'>

/**
 * Makes a delivery of a record. Headers that are not valid UTF-8 are only in `raw`; a tombstone has an empty body.
 *
 * The incarnation is the cluster and the record's own timestamp. A topic that was deleted and created again has other
 * timestamps at the offsets it uses again, and kafkajs supports no version of the protocol that tells a topic's id.
 *
 * @param clusterId - Undefined if it is not known: see `wrapKafka`.
 */
export function toDelivery(record: KafkaRecord, clusterId: string | undefined): Delivery {
  const { topic, partition, message } = record
  const headers = toHeaders(message.headers ?? {})
  const contentType = headers['content-type']
  const producedAt = toDate(message.timestamp)
  return {
    body: message.value ?? new Uint8Array(),
    headers,
    source: {
      broker: 'kafka',
      queue: topic,
      position: `${partition}/${message.offset}`,
      incarnation: `${clusterId ?? ''}:${message.timestamp}`,
    },
    ...(contentType === undefined ? {} : { contentType }),
    ...(message.key === null ? {} : { orderingKey: toLane(message.key) }),
    ...(producedAt === undefined ? {} : { producedAt }),
    raw: record,
  }
}

/** The original record of a delivery; undefined for other brokers and for stored deliveries. */
export function kafkaMessage(delivery: Delivery): KafkaRecord | undefined {
  const { raw, source } = delivery
  if (source.broker !== 'kafka' || typeof raw !== 'object' || raw === null) return undefined
  return raw as KafkaRecord
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function toText(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes)
  } catch {
    return undefined
  }
}

/** Keys are bytes: two keys that are not valid UTF-8 must not become the same lane. */
function toLane(key: Buffer | string): string {
  if (typeof key === 'string') return key
  return toText(key) ?? `base64:${key.toString('base64')}`
}

function toHeaders(headers: IHeaders): Delivery['headers'] {
  const entries = Object.entries(headers).flatMap(([name, value]) => {
    // Repeated headers come as a list.
    const last = Array.isArray(value) ? value.at(-1) : value
    const text = typeof last === 'string' ? last : last instanceof Uint8Array ? toText(last) : null
    return typeof text === 'string' ? [[name.toLowerCase(), text] as const] : []
  })
  // Not by assignment, because a header may be called __proto__.
  return Object.fromEntries(entries)
}

function toDate(timestamp: string): Date | undefined {
  const date = new Date(Number(timestamp))
  return Number.isNaN(date.getTime()) || Number(timestamp) < 0 ? undefined : date
}
