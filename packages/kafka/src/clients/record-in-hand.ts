import type { Delivery } from '@onceward/core'
import { copyDelivery, type Delivered } from '@onceward/core/adapter'
import { type KafkaRecord, laneOf, toDelivery } from '../delivery.ts'

/** An unsettled record. Its delivery is made when it starts, because a fetch may bring thousands of records at once. */
export class RecordInHand implements Delivered {
  readonly record: KafkaRecord
  /** Of the key, the value and the headers. */
  readonly bytes: number
  state: 'waiting' | 'running' | 'settled' = 'waiting'
  /** When it may run, on the monotonic clock; infinite if it will not be started here any more. */
  dueMs = 0
  readonly #clusterId: string | undefined
  readonly #place: Delivery['place']
  #delivery: Delivery | undefined
  #lane: string | undefined
  #failures = 0
  #isSuspect = false

  constructor(record: KafkaRecord, clusterId: string | undefined, place?: Delivery['place']) {
    this.record = record
    this.bytes = bytesOf(record)
    this.#clusterId = clusterId
    this.#place = place
  }

  /** Records of one lane run in order. */
  get lane(): string | undefined {
    this.#lane ??= laneOf(this.record.message)
    return this.#lane
  }

  get delivery(): Delivery {
    this.#delivery ??= this.#made()
    return this.#delivery
  }

  /** The next run gets another delivery, marked as redelivered. */
  suspect(): void {
    this.#isSuspect = true
    this.forget()
  }

  /** The delivery is not needed any more. It keeps the answer of the broker in memory that brought its record. */
  forget(): void {
    this.#delivery = undefined
  }

  /** The next run counts one delivery more. Kafka keeps no delivery count, and a record without an event key has no row, so the adapter counts. */
  countFailure(): void {
    this.#failures += 1
  }

  #made(): Delivery {
    const delivery = toDelivery(this.record, this.#clusterId, this.#place)
    if (!this.#isSuspect) return delivery
    const deliveryCount = this.#failures === 0 ? undefined : 1 + this.#failures
    return copyDelivery(delivery, { redelivered: true, deliveryCount })
  }
}

function bytesOf({ message: { key, value, headers = {} } }: KafkaRecord): number {
  let bytes = (key?.length ?? 0) + (value?.length ?? 0)
  for (const name of Object.keys(headers)) bytes += lengthOf(headers[name])
  return bytes
}

function lengthOf(header: NonNullable<KafkaRecord['message']['headers']>[string]): number {
  if (!Array.isArray(header)) return header?.length ?? 0
  // A repeated header may have a null among its values, and kafkajs puts values of Object.prototype before others.
  const values: readonly ({ readonly length?: number } | null)[] = header
  return values.reduce((sum, each) => sum + (each?.length ?? 0), 0)
}
