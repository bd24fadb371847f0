import type { Delivery } from '@onceward/core'
import { fromKafkaMessage, type KafkaRecord } from '@onceward/kafka/record'
import { type Fields, fieldsOf, textOf } from './fields.ts'
import { wrongEvent } from './invocation.ts'

/** Makes a delivery of a record of a Kafka event. `raw` is the record as kafkajs gives it. */
export const toDelivery = (record: unknown): Delivery =>
  fromKafkaMessage(toRecord(fieldsOf(record)))

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
function toHeaderBytes(headers: readonly unknown[]): Record<string, Buffer | Buffer[]> {
  const found = new Map<string, Buffer | Buffer[]>()
  for (const [name, bytes] of headers.flatMap((header) => Object.entries(fieldsOf(header)))) {
    if (!Array.isArray(bytes) || !bytes.every(isByte)) continue
    const value = Buffer.from(bytes)
    const before = found.get(name)
    found.set(name, before === undefined ? value : [before, value].flat())
  }
  return Object.fromEntries(found)
}
