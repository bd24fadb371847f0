import type { Batch, KafkaMessage } from 'kafkajs'

/** All records of a batch, also those that kafkajs hides. Its types leave them out. */
interface Raw {
  readonly rawMessages?: readonly KafkaMessage[]
}

/**
 * Gives the records of a batch bytes of their own. kafkajs cuts records out of the answer to its fetch, so one small
 * unsettled record keeps the whole answer in memory: up to 10 MB, with the records of other partitions.
 */
export function ownBytes(batch: Batch): void {
  const { rawMessages = batch.messages } = batch as Batch & Raw
  for (const message of rawMessages) {
    // A handler may have frozen its record. An error would end the consumer for good (brokers.md K5).
    Reflect.set(message, 'key', owned(message.key))
    Reflect.set(message, 'value', owned(message.value))
    const headers = Object.entries(message.headers ?? {})
    const own = headers.map(([name, value]) => [name, owned(value)])
    // Not by assignment, because a header may be called __proto__.
    if (headers.length > 0) Reflect.set(message, 'headers', Object.fromEntries(own))
  }
}

function owned<Value>(value: Value): Value {
  const own: unknown = Array.isArray(value)
    ? value.map(owned)
    : value instanceof Uint8Array
      ? Buffer.from(value)
      : value
  return own as Value
}
