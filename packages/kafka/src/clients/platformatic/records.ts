import type { RecordsBatch } from '@platformatic/kafka'
import type { KafkaRecord } from '../../delivery.ts'
import type { Partition } from '../../offsets.ts'
import { abortedAt } from '../aborted.ts'
import type { Fetched } from '../port.ts'
import type { FetchResponse } from './errors.ts'

/** Bits of the attributes of a batch. */
const LOG_APPEND_TIME = 0x08
const TRANSACTIONAL = 0x10
const CONTROL = 0x20
/** The type of a control record that ends an aborted transaction. */
const ABORT = 0

/** The records of a partition from this offset on, without those of aborted transactions. Undefined if it brought none. */
export function fetchedOf(
  place: Partition,
  {
    abortedTransactions,
    records: batches,
  }: FetchResponse['responses'][number]['partitions'][number],
  from: bigint,
): Fetched | undefined {
  const last = batches?.at(-1)
  if (!batches || last === undefined) return undefined
  const next = endOf(last) + 1n
  if (next <= from) return undefined
  const records = committed(batches, abortedTransactions ?? []).flatMap((batch) =>
    batch.records.flatMap((record) => {
      const offset = batch.firstOffset + BigInt(record.offsetDelta)
      return offset < from ? [] : [toRecord(place, batch, record, offset)]
    }),
  )
  return { ...place, records, next }
}

const endOf = ({ firstOffset, lastOffsetDelta }: RecordsBatch): bigint =>
  firstOffset + BigInt(lastOffsetDelta)

/**
 * Batches that consumers see. The client itself (2.12) leaves records of an aborted transaction in, if its end is not in
 * the same answer, or if its producer aborted another one there.
 */
function committed(
  batches: readonly RecordsBatch[],
  transactions: Parameters<typeof abortedAt>[0],
): readonly RecordsBatch[] {
  const producersAt = abortedAt(transactions)
  return batches.filter((batch) => {
    const aborted = producersAt(endOf(batch))
    const producer = String(batch.producerId)
    if ((batch.attributes & CONTROL) !== 0) {
      if (batch.records[0]?.key?.readInt16BE(2) === ABORT) aborted.delete(producer)
      return false
    }
    return (batch.attributes & TRANSACTIONAL) === 0 || !aborted.has(producer)
  })
}

function toRecord(
  { topic, partition }: Partition,
  batch: RecordsBatch,
  { attributes, headers, key, timestampDelta, value }: RecordsBatch['records'][number],
  offset: bigint,
): KafkaRecord {
  const isAppendTime = (batch.attributes & LOG_APPEND_TIME) !== 0
  const timestamp = isAppendTime ? batch.maxTimestamp : batch.firstTimestamp + timestampDelta
  const message = {
    ...{ key: owned(key), value: owned(value), headers: headersOf(headers) },
    ...{ timestamp: String(timestamp), offset: String(offset), attributes },
  }
  return { topic, partition, message }
}

/** The client cuts records out of its answer, so one small unsettled record would keep the whole answer in memory. */
const owned = (bytes: Buffer | null): Buffer | null => (bytes === null ? null : Buffer.from(bytes))

type Headers = NonNullable<KafkaRecord['message']['headers']>

/** Values of a repeated header come as a list, as with kafkajs. */
function headersOf(entries: readonly (readonly [Buffer | null, Buffer | null])[]): Headers {
  const values = new Map<string, (Buffer | null)[]>()
  for (const [name, value] of entries) {
    const key = String(name ?? '')
    values.set(key, [...(values.get(key) ?? []), owned(value)])
  }
  const headers = [...values].map(([name, all]) => [name, all.length === 1 ? all[0] : all] as const)
  // Not by assignment, because a header may be called __proto__.
  return Object.fromEntries(headers) as Headers
}
