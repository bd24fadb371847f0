import { nameOf, type Partition } from '../../offsets.ts'
import type { FetchedBatch } from './fetched-batch.ts'

/** For the unsettled records of all partitions together. At this bound nothing more is fetched. */
const MOST_BYTES = 64 * 1_024 * 1_024

/** The batches with records to run: at most one for each partition, in the order of their turn. */
export class OpenBatches {
  readonly #batches = new Map<string, FetchedBatch>()

  get all(): readonly FetchedBatch[] {
    return [...this.#batches.values()]
  }

  of(partition: Partition): FetchedBatch | undefined {
    return this.#batches.get(nameOf(partition))
  }

  add(batch: FetchedBatch): void {
    this.#batches.set(nameOf(batch), batch)
  }

  /** Leaves another batch of the same partition alone. */
  remove(batch: FetchedBatch): void {
    if (this.of(batch) === batch) this.#batches.delete(nameOf(batch))
  }

  /** Partitions with work that kafkajs does not wait for. */
  busy(nowMs: number): number {
    return this.all.filter(({ attached, progress }) => !(attached || progress.isDeferred(nowMs)))
      .length
  }

  /** Partitions of which nothing more may be fetched. */
  get full(): number {
    const isFull = this.#bytes >= MOST_BYTES
    return this.all.filter((batch) => isFull || !hasRoom(batch)).length
  }

  /** Whether nothing more of the partition may be fetched. */
  isFull(partition: Partition): boolean {
    const batch = this.of(partition)
    return batch !== undefined && !this.hasRoom(batch)
  }

  /** Whether more of the partition may be fetched while these records are unsettled. */
  hasRoom(batch: FetchedBatch): boolean {
    return hasRoom(batch) && this.#bytes < MOST_BYTES
  }

  get #bytes(): number {
    let bytes = 0
    for (const { progress } of this.#batches.values()) bytes += progress.bytes
    return bytes
  }
}

const hasRoom = ({ progress, stop }: FetchedBatch): boolean =>
  !stop.signal.aborted && progress.hasRoom
