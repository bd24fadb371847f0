import type { IHeaders } from 'kafkajs'
import type { KafkaRecord } from '../../delivery.ts'
import type { RdMessage } from './rdkafka.ts'

/** The record as kafkajs would give it, so that its delivery, its key and its dead letter are the same. */
export function toRecord(message: RdMessage): KafkaRecord {
  const { topic, partition, offset, key, value, timestamp, headers } = message
  return {
    topic,
    partition,
    message: {
      key,
      value,
      timestamp: String(timestamp),
      attributes: 0,
      offset: String(offset),
      ...(headers !== undefined && { headers: toHeaders(headers) }),
    },
  }
}

type Value = Buffer | null

/** One object per header, in order. A header that is repeated becomes a list. */
function toHeaders(headers: NonNullable<RdMessage['headers']>): IHeaders {
  const found = new Map<string, Value | Value[]>()
  for (const [name, bytes] of headers.flatMap(entryOf)) {
    // The client gives no bytes for null. Nobody sends an empty header on purpose, and null says "not set".
    const value = bytes.byteLength === 0 ? null : bytes
    const before = found.get(name)
    if (before === undefined) found.set(name, value)
    else found.set(name, [...(Array.isArray(before) ? before : [before]), value])
  }
  // Not by assignment, because a header may be called __proto__. The types of kafkajs leave out null, which it gives too.
  return Object.fromEntries(found) as IHeaders
}

/** The client assigns to the name, so a header that is called `__proto__` is the prototype. */
function entryOf(header: Readonly<Record<string, Buffer>>): readonly (readonly [string, Buffer])[] {
  const own = Object.entries(header)
  const prototype: unknown = Object.getPrototypeOf(header)
  return own.length === 0 && Buffer.isBuffer(prototype) ? [['__proto__', prototype]] : own
}
