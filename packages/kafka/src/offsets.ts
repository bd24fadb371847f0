import type { RecordInHand } from './clients/record-in-hand.ts'

/** A partition of a topic. */
export interface Partition {
  readonly topic: string
  readonly partition: number
}

/** One string per partition; a topic name has no slash. */
export const nameOf = ({ topic, partition }: Partition): string => `${topic}/${partition}`

/**
 * Settled records above an unsettled one are delivered again after a crash or a rebalance, as duplicates. At this
 * number of records from the first unsettled one on, nothing more of the partition is fetched or started.
 */
const MOST_AHEAD = 1_000
/** The same bound in bytes of keys, values and headers. The last fetch may exceed it. */
const MOST_BYTES_AHEAD = 4 * 1_024 * 1_024

/**
 * The progress of the records of one fetched batch.
 *
 * ```
 * offset    40   41   42   43   44   45
 *           ok   ok   run  ok   ok   wait
 *                     └ the low watermark: 42 is committed, so 42 is read next
 * ```
 *
 * Records of one lane run in order, one at a time. A waiting record blocks only its own lane.
 */
export class Progress {
  #items: readonly RecordInHand[]
  readonly #laneOf: (item: RecordInHand) => string | undefined
  /** Records that run, by lane. */
  readonly #busy = new Map<string, number>()
  #low = 0
  #bytes = 0
  #running = 0
  #unsettled = 0
  /** Records that wait for a time. */
  readonly #postponed = new Set<RecordInHand>()
  /** No record may run before this time, unless one of them is settled or postponed. A thousand may wait here. */
  #restsUntilMs = 0

  constructor(items: readonly RecordInHand[], laneOf: (item: RecordInHand) => string | undefined) {
    this.#items = []
    this.#laneOf = laneOf
    this.append(items)
  }

  /** Adds the records of the next fetch, and drops those that the low watermark has passed. */
  append(items: readonly RecordInHand[]): void {
    this.#items = [...this.#items.slice(this.#low), ...items]
    this.#low = 0
    this.#restsUntilMs = 0
    this.#unsettled += items.length
    for (const { bytes } of items) this.#bytes += bytes
  }

  /** Whether more records may be fetched while these are unsettled. */
  get hasRoom(): boolean {
    return this.#items.length - this.#low < MOST_AHEAD && this.#bytes < MOST_BYTES_AHEAD
  }

  /** Bytes of the records from the low watermark on. */
  get bytes(): number {
    return this.#bytes
  }

  get running(): number {
    return this.#running
  }

  get unsettled(): number {
    return this.#unsettled
  }

  get isComplete(): boolean {
    return this.#unsettled === 0
  }

  /** The first that is not settled. */
  get lowest(): RecordInHand | undefined {
    return this.#items[this.#low]
  }

  /** Takes at most `most` records that may run now; from here on they count as running. */
  take(nowMs: number, most: number): readonly RecordInHand[] {
    const taken = this.#runnable(nowMs, most)
    for (const item of taken) this.#start(item)
    return taken
  }

  /** Groups records by lane. A record without a key has a lane of its own. */
  byLane(items: readonly RecordInHand[]): readonly (readonly RecordInHand[])[] {
    return [...Map.groupBy(items, (item) => this.#laneOf(item) ?? item).values()]
  }

  /** Whether its records only wait for a time: none runs, and none may. */
  isDeferred(nowMs: number): boolean {
    return this.#unsettled > 0 && this.#running === 0 && this.#runnable(nowMs, 1).length === 0
  }

  #runnable(nowMs: number, most: number): readonly RecordInHand[] {
    const taken: RecordInHand[] = []
    if (nowMs < this.#restsUntilMs) return taken
    const blocked = new Set<string>()
    const end = Math.min(this.#items.length, this.#low + MOST_AHEAD)
    for (let at = this.#low; at < end && taken.length < most; at += 1) {
      const item = this.#items[at] as RecordInHand
      if (item.state !== 'waiting') continue
      const lane = this.#laneOf(item)
      const isFree = lane === undefined || !(this.#busy.has(lane) || blocked.has(lane))
      if (isFree && item.dueMs <= nowMs) taken.push(item)
      else if (lane !== undefined) blocked.add(lane)
    }
    if (most > 0 && taken.length === 0) this.#restsUntilMs = this.nextDueMs(nowMs)
    return taken
  }

  settle(item: RecordInHand): void {
    this.#stop(item)
    item.state = 'settled'
    item.forget()
    this.#unsettled -= 1
    for (let { lowest } = this; lowest?.state === 'settled'; { lowest } = this) {
      this.#bytes -= lowest.bytes
      this.#low += 1
    }
  }

  /** Schedules another run of a record at that time; until then its lane waits. */
  postpone(item: RecordInHand, dueMs: number): void {
    this.#stop(item)
    this.#postponed.add(item)
    item.state = 'waiting'
    item.dueMs = dueMs
    item.suspect()
  }

  /** When the next postponed record becomes due; infinite if none will. Records that are due wait for slots. */
  nextDueMs(nowMs: number): number {
    if (nowMs < this.#restsUntilMs) return this.#restsUntilMs
    let next = Number.POSITIVE_INFINITY
    for (const { dueMs } of this.#postponed) if (dueMs > nowMs) next = Math.min(next, dueMs)
    return next
  }

  #start(item: RecordInHand): void {
    this.#postponed.delete(item)
    item.state = 'running'
    this.#running += 1
    const lane = this.#laneOf(item)
    if (lane !== undefined) this.#busy.set(lane, (this.#busy.get(lane) ?? 0) + 1)
  }

  #stop(item: RecordInHand): void {
    this.#restsUntilMs = 0
    this.#running -= 1
    const lane = this.#laneOf(item)
    if (lane === undefined) return
    const others = (this.#busy.get(lane) ?? 1) - 1
    if (others === 0) this.#busy.delete(lane)
    else this.#busy.set(lane, others)
  }
}
