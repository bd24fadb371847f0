import type { PartitionFence } from '@onceward/core/ports'
import type { KafkaRecord } from '../../delivery.ts'
import { type Partition, Progress } from '../../offsets.ts'
import type { Fetched, Position } from '../port.ts'
import { RecordInHand } from '../record-in-hand.ts'

/** A partition with the offset that is read first. */
export interface Start extends Position {
  /** The group has that offset. */
  readonly isCommitted: boolean
  /** With `identity: 'offsets'`. */
  readonly fence?: PartitionFence | undefined
}

export interface PulledBatchOptions {
  readonly clusterId: string | undefined
  /** The lane of all records if the guard finds lanes itself; otherwise each record's key is its lane. */
  readonly sharedLane: string | undefined
  readonly nowMs: number
}

/** A partition is fetched again when so few of its records are left. */
const FEW = 500

/** The unsettled records of a partition, from its assignment until it goes. */
export class PulledBatch implements Partition {
  readonly topic: string
  readonly partition: number
  readonly progress: Progress
  /** Aborted when no more of its records may start. */
  readonly stop: AbortController = new AbortController()
  /** Aborted when its running handlers exceeded the drain time or lost their partition. */
  readonly abort: AbortController = new AbortController()
  /** Its offset is being committed before more of its records start. */
  isCommitting = false
  /** The client was asked to fetch none of it. */
  isPaused = false
  /** The records that follow are not read: their place does not fit what is stored. */
  isRefused = false
  /** Its offset must not be moved any more. */
  isLost = false
  readonly #clusterId: string | undefined
  #next: bigint
  #committed: bigint | undefined
  readonly #fence: PartitionFence | undefined

  constructor(start: Start, options: PulledBatchOptions) {
    this.topic = start.topic
    this.partition = start.partition
    this.#clusterId = options.clusterId
    this.#next = start.offset
    this.#committed = start.isCommitted ? start.offset : undefined
    this.#fence = start.fence
    this.progress = new Progress([], ({ lane }) => options.sharedLane ?? lane)
  }

  /** Takes what was fetched. Records that it had before are left out: a client may read a partition again after a join. */
  append({ records, next }: Fetched): void {
    const from = this.#next
    if (next <= from) return
    const fresh = records.filter(({ message }) => BigInt(message.offset) >= from)
    this.progress.append(this.#itemsOf(fresh, Number(from)))
    this.#next = next
  }

  /** Whether the records are those that were expected next, and none is left out. */
  isContinuedBy({ records }: Fetched): boolean {
    const first = Number(this.#next)
    return records.every(({ message }, index) => Number(message.offset) === first + index)
  }

  #itemsOf(records: readonly KafkaRecord[], first: number): readonly RecordInHand[] {
    const fence = this.#fence
    if (fence === undefined) return records.map((each) => new RecordInHand(each, this.#clusterId))
    let from = first
    return records.flatMap((each) => {
      const place = { fence, from, offset: Number(each.message.offset) }
      from = place.offset + 1
      return fence.isDone(place.offset) ? [] : [new RecordInHand(each, this.#clusterId, place)]
    })
  }

  /** What is settled need not be an exception any more. Returns whether the partition is still this member's. */
  settled(): boolean {
    this.#fence?.settledTo(Number(this.position))
    return this.#fence?.isLost !== true
  }

  /** With `identity: 'offsets'`: stores what was settled without a transaction of clean records. */
  async store(when: 'now' | 'if-quiet'): Promise<void> {
    if (this.isLost || !this.settled()) return
    await (when === 'now' ? this.#fence?.store() : this.#fence?.storeIfQuiet())
  }

  /** Nobody has had the partition before, so nobody has started its records. */
  get isFirst(): boolean {
    return this.#fence?.isFirst === true
  }

  /** What would be read next. */
  get next(): bigint {
    return this.#next
  }

  /** Before it, every record is done. */
  get position(): bigint {
    const lowest = this.progress.lowest?.record.message.offset
    return lowest === undefined ? this.#next : BigInt(lowest)
  }

  /** The offset to commit, if it is a new one. */
  get uncommitted(): Position | undefined {
    const { topic, partition, position } = this
    if (this.isLost || position === this.#committed) return undefined
    return { topic, partition, offset: position }
  }

  get committed(): bigint | undefined {
    return this.#committed
  }

  /** @param offset - As the group has it; undefined if it has none. */
  noteCommitted(offset: bigint | undefined): void {
    this.#committed = offset
  }

  get hasFew(): boolean {
    return this.progress.hasRoom && this.progress.unsettled < FEW
  }

  get inFlight(): number {
    return this.isLost ? this.progress.running : this.progress.unsettled
  }

  /** Its records do not run, and will not. */
  get isOver(): boolean {
    const { isComplete, running } = this.progress
    return isComplete || (running === 0 && (this.isLost || this.stop.signal.aborted))
  }

  lose(): void {
    this.isLost = true
    this.stop.abort()
  }
}
