import { nameOf, type Partition } from '../../offsets.ts'
import type { Fetched } from '../port.ts'
import type { RdMessage } from './rdkafka.ts'
import { toRecord } from './record.ts'

/** Of the records of a paused partition: about one fetch. */
const KEPT_BYTES = 1_048_576
/** Of a record beside its value. */
const RECORD_BYTES = 100

interface Kept {
  readonly messages: RdMessage[]
  bytes: number
}

/** Asks librdkafka. */
export type Hold = (verb: 'pause' | 'resume', partition: Partition) => void

/**
 * Records that came from librdkafka and are not given yet.
 *
 * A partition is paused here first, and by librdkafka only when more of its records come than may be kept: it drops what
 * it has fetched of a paused partition, and asks for it again up to a second after the last one is resumed.
 */
export class KeptRecords {
  readonly #hold: Hold
  readonly #kept = new Map<string, Kept>()
  readonly #paused = new Set<string>()
  /** Those of them that librdkafka has paused. */
  readonly #held = new Set<string>()

  constructor(hold: Hold) {
    this.#hold = hold
  }

  pause(partitions: readonly Partition[]): void {
    for (const each of partitions) this.#paused.add(nameOf(each))
  }

  resume(partitions: readonly Partition[]): void {
    for (const each of partitions) this.#paused.delete(nameOf(each))
  }

  forget(partitions: readonly Partition[]): void {
    for (const name of partitions.map(nameOf)) {
      this.#paused.delete(name)
      this.#held.delete(name)
      this.#kept.delete(name)
    }
  }

  /** Whether the partition is not paused, and all of its records are given. */
  isGiven(name: string): boolean {
    return !(this.#paused.has(name) || this.#kept.has(name))
  }

  add(message: RdMessage): void {
    const name = nameOf(message)
    const kept = this.#kept.get(name) ?? { messages: [], bytes: 0 }
    this.#kept.set(name, kept)
    kept.messages.push(message)
    kept.bytes += message.size + RECORD_BYTES
    if (kept.bytes < KEPT_BYTES || !this.#paused.has(name) || this.#held.has(name)) return
    this.#held.add(name)
    this.#hold('pause', message)
  }

  /** At most so many records, in order, of partitions that are not paused. */
  take(most: number): readonly Fetched[] {
    const given: Fetched[] = []
    let left = most
    for (const [name, kept] of this.#kept) {
      if (left <= 0) break
      if (this.#paused.has(name)) continue
      const taken = kept.messages.splice(0, left)
      left -= taken.length
      for (const { size } of taken) kept.bytes -= size + RECORD_BYTES
      if (kept.messages.length === 0) this.#kept.delete(name)
      const { topic, partition, offset } = taken.at(-1) as RdMessage
      // Before all are given: it takes a while until more come.
      if (kept.bytes < KEPT_BYTES / 2 && this.#held.delete(name)) {
        this.#hold('resume', { topic, partition })
      }
      given.push({ topic, partition, records: taken.map(toRecord), next: BigInt(offset) + 1n })
    }
    return given
  }
}
