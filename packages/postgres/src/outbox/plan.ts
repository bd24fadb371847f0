/** A message that may leave, as a relay knows it before it reads it. */
export interface Planned {
  readonly position: string
  readonly bucket: number
  /** Of its key, hashed. Undefined: none. */
  readonly lane: string | undefined
}

/** A plan is made again after this time, if that is cheap, ms: it does not have what was committed since. */
const FRESH_MS = 1_000
/** Part of the time that may be spent on plans. */
const SHARE = 10

/**
 * The queued messages of one destination in the order in which they leave, as one snapshot has shown them. Within a snapshot
 * no message is seen without the earlier ones of its key, so their order holds however long the plan is used. It spares the
 * looks to pass, each time, the entries of the index that deleted messages have left: while any transaction of the server
 * is open, no vacuum removes them.
 */
export class Plan {
  /** Whose messages it has. A bucket that was given away and comes back is not one of them. */
  #buckets: ReadonlySet<number>
  readonly #messages: Map<string, Planned>
  readonly #staleAtMs: number

  constructor(
    buckets: readonly number[],
    messages: readonly Planned[],
    { nowMs, tookMs }: { readonly nowMs: number; readonly tookMs: number },
  ) {
    this.#buckets = new Set(buckets)
    const inOrder = messages.toSorted((a, b) => Number(a.position) - Number(b.position))
    this.#messages = new Map(inOrder.map((message) => [message.position, message]))
    this.#staleAtMs = nowMs + Math.max(FRESH_MS, SHARE * tookMs)
  }

  /** Buckets in which it has messages. */
  get filled(): number {
    return new Set([...this.#messages.values()].map(({ bucket }) => bucket)).size
  }

  /** Forgets the messages of other buckets. Answers whether the plan holds for all of these. */
  keep(buckets: readonly number[], nowMs: number): boolean {
    const kept = new Set(buckets)
    for (const [position, { bucket }] of this.#messages)
      if (!kept.has(bucket)) this.#messages.delete(position)
    const had = this.#buckets
    this.#buckets = new Set(buckets.filter((bucket) => had.has(bucket)))
    return this.#buckets.size === kept.size && nowMs < this.#staleAtMs
  }

  /** The next ones, without those that wait for a message in a call that runs. */
  next(count: number, busy: ReadonlySet<string>): readonly string[] {
    const lanes = new Set([...busy].map((position) => this.#messages.get(position)?.lane))
    const positions: string[] = []
    for (const { lane, position } of this.#messages.values()) {
      if (positions.length === count) break
      if (busy.has(position) || (lane !== undefined && lanes.has(lane))) continue
      positions.push(position)
    }
    return positions
  }

  remove(position: string): void {
    this.#messages.delete(position)
  }

  /** The message waits for its next attempt, and those of its key wait behind it. */
  hold(position: string): void {
    const lane = this.#messages.get(position)?.lane
    this.#messages.delete(position)
    if (lane === undefined) return
    for (const other of this.#messages.values())
      if (other.lane === lane) this.#messages.delete(other.position)
  }
}
