import { nameOf, type Partition } from '../offsets.ts'

/**
 * How long records are suspects: the previous owner of their partition may have started them.
 *
 * The time runs from the first fetch of each partition, not from the assignment: on a slow network that fetch takes longer
 * than the time, and the message that killed the last member would kill one after the other without being counted.
 */
export class Suspicion {
  readonly #forMs: number
  /** Partitions that were fetched since the last assignment. */
  readonly #fetched = new Set<string>()
  #untilMs = Number.POSITIVE_INFINITY

  /** @param forMs - The previous member may have started records for this long since its last commit. */
  constructor(forMs: number) {
    this.#forMs = forMs
  }

  /** On the monotonic clock. Infinite before the first assignment. */
  get untilMs(): number {
    return this.#untilMs
  }

  /** @param isFirst - Nobody has had the partitions before. */
  assigned(nowMs: number, isFirst = false): void {
    this.#fetched.clear()
    const before = Number.isFinite(this.#untilMs) ? this.#untilMs : nowMs
    this.#untilMs = isFirst ? before : nowMs + this.#forMs
  }

  fetched(partition: Partition, nowMs: number): void {
    const name = nameOf(partition)
    if (this.#fetched.has(name)) return
    this.#fetched.add(name)
    this.#untilMs = nowMs + this.#forMs
  }
}
