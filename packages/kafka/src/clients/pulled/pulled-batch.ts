import { type OpenBatch, Progress } from '../../offsets.ts'
import type { Fetched, Position } from '../port.ts'
import { RecordInHand } from '../record-in-hand.ts'

export interface PulledBatchOptions {
  readonly clusterId: string | undefined
  /** The lane of all records if the guard finds lanes itself; otherwise each record's key is its lane. */
  readonly sharedLane: string | undefined
  readonly nowMs: number
}

/** A partition is fetched again when so few of its records are left. */
const FEW = 500

/** The unsettled records of a partition, from its assignment until it goes. */
export class PulledBatch implements OpenBatch {
  readonly topic: string
  readonly partition: number
  readonly progress: Progress
  readonly stop: AbortController = new AbortController()
  readonly abort: AbortController = new AbortController()
  lastKnownAtMs: number
  isCommitting = false
  /** The client was asked to fetch none of it. */
  isPaused = false
  /** Its offset must not be moved any more. */
  isLost = false
  readonly #clusterId: string | undefined
  #next: bigint
  #committed: bigint | undefined

  /** @param start - What is read first. It is what the group has, unless that is not known. */
  constructor(start: Position, isCommitted: boolean, options: PulledBatchOptions) {
    this.topic = start.topic
    this.partition = start.partition
    this.lastKnownAtMs = options.nowMs
    this.#clusterId = options.clusterId
    this.#next = start.offset
    this.#committed = isCommitted ? start.offset : undefined
    this.progress = new Progress([], ({ lane }) => options.sharedLane ?? lane)
  }

  /** Takes what was fetched. Records that it had before are left out: a client may read a partition again after a join. */
  append({ records, next }: Fetched): void {
    const from = this.#next
    const items = records
      .filter(({ message }) => BigInt(message.offset) >= from)
      .map((record) => new RecordInHand(record, this.#clusterId))
    if (next <= from) return
    this.#next = next
    this.progress.append(items)
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

  get isOver(): boolean {
    const { isComplete, running } = this.progress
    return isComplete || (running === 0 && (this.isLost || this.stop.signal.aborted))
  }

  lose(): void {
    this.isLost = true
    this.stop.abort()
  }
}
