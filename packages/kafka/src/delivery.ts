import type { Delivery } from '@onceward/core'
import type { EachMessagePayload, IHeaders } from 'kafkajs'

/** A record as kafkajs gives it, and where it stood. */
export type KafkaRecord = Pick<EachMessagePayload, 'topic' | 'partition' | 'message'>

/**
 * A record as a delivery. Headers that are no text stay in `raw` alone; a tombstone has an empty body.
 *
 * Its incarnation is the cluster and the record's own timestamp: a topic that is made anew has other timestamps at the
 * offsets it uses again, and kafkajs speaks no version of the protocol that tells the id of a topic.
 *
 * @param clusterId - Undefined where it cannot be had: see `wrapKafka`.
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

/** The record that a delivery was made of; undefined for another broker's and for stored deliveries. */
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

/** Keys are bytes: two that are no text must not become the same lane. */
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
  // Not by assignment: a header may be called __proto__.
  return Object.fromEntries(entries)
}

function toDate(timestamp: string): Date | undefined {
  const date = new Date(Number(timestamp))
  return Number.isNaN(date.getTime()) || Number(timestamp) < 0 ? undefined : date
}
