import type { EventId, EventKey } from '../model/brands.ts'
import type {
  DeliveryPlace,
  FenceMove,
  FenceState,
  OffsetRange,
  OffsetStore,
  PartitionClaim,
  PartitionFence,
} from '../model/fence.ts'

/** How the event of a record is known: by its place alone, or by a row as other events are. */
export type Regime = 'done' | 'row' | 'place'

/**
 * A partition whose offsets are the identity of its events (design.md §14). What is remembered of all of them is one row:
 *
 * ```
 * offset    40   41   42   43   44   45   46   47
 *           done done open done done │ place …
 *                      └ its row decides   └ next: what comes from here on has no rows
 * ```
 *
 * Clean records move `next` on, in their own transaction. Whatever else happens to a record makes it an exception first:
 * `next` passes it, it is `open`, and from then on it is an ordinary event with a row. So a record has a row only if it
 * is open, and two owners never judge one record in two ways: every move compares the epoch of its owner and the offset
 * that it moves on from. `test-e2e/model/fence.ts` explores the rules.
 */
export class Fence implements PartitionFence {
  readonly id: EventId
  readonly isFirst: boolean
  readonly #place: string
  readonly #store: Pick<OffsetStore, 'move'>
  #state: FenceState
  #low = 0
  #hasMoved = false
  #storing: Promise<void> | undefined
  #last: Promise<unknown> = Promise.resolve()
  isLost = false

  constructor(
    id: EventId,
    claim: PartitionClaim,
    { state, store }: { readonly state: FenceState; readonly store: Pick<OffsetStore, 'move'> },
  ) {
    this.id = id
    this.#store = store
    this.isFirst = state.epoch === 1
    this.#place = `${claim.place}/${state.generation}`
    this.#state = state
  }

  get from(): number {
    const { next, open } = this.#state
    return Math.min(next, open[0]?.[0] ?? next)
  }

  isDone(offset: number): boolean {
    return this.regimeOf(offset) === 'done'
  }

  settledTo(offset: number): void {
    this.#low = Math.max(this.#low, offset)
  }

  async store(): Promise<void> {
    // Most partitions have nothing to store, and need not wait for the transaction that runs.
    if (!this.#isBehind) return
    this.#storing ??= this.inTurn(async () => {
      if (!this.isLost && this.#isBehind) {
        this.adopt(await this.#store.move(this.#moveOver([], [])))
      }
    }).finally(() => {
      this.#storing = undefined
    })
    await this.#storing
  }

  async storeIfQuiet(): Promise<void> {
    const hasMoved = this.#hasMoved
    this.#hasMoved = false
    if (!hasMoved) await this.store()
  }

  /** What is settled is not all stored. */
  get #isBehind(): boolean {
    const { next, open } = this.#state
    return this.#low > next || (open[0]?.[0] ?? this.#low) < this.#low
  }

  keyOf(offset: number): EventKey {
    return `${this.#place}/${offset}` as EventKey
  }

  regimeOf(offset: number): Regime {
    const { next, open } = this.#state
    if (offset >= next) return 'place'
    return open.some(([from, end]) => offset >= from && offset < end) ? 'row' : 'done'
  }

  /** One after the other: each move follows from the one before. */
  inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work, work)
    this.#last = turn.catch(() => undefined)
    return turn
  }

  /** The move that makes the records done, in the order of their offsets. Records before them that did not run become exceptions. */
  passing(places: readonly DeliveryPlace[]): FenceMove {
    return this.#moveOver(places, [])
  }

  /** The move that makes the records exceptions. */
  excepting(places: readonly DeliveryPlace[]): FenceMove {
    const ranges = places.map(({ offset }): OffsetRange => [offset, offset + 1])
    return this.#moveOver(places, ranges)
  }

  moved({ next, open }: FenceMove): void {
    this.#state = { ...this.#state, next, open }
    this.#hasMoved = true
  }

  /** Takes over what is stored. Undefined: an operator has deleted it. */
  adopt(stored: FenceState | undefined): void {
    this.#hasMoved = true
    if (stored?.epoch === this.#state.epoch) this.#state = stored
    else this.isLost = true
  }

  #moveOver(places: readonly DeliveryPlace[], open: readonly OffsetRange[]): FenceMove {
    const { epoch, next: old } = this.#state
    const unrun: OffsetRange[] = []
    // Settled records that have no rows are not run again.
    let next = Math.max(old, this.#low)
    for (const { from, offset } of places) {
      if (from > next) unrun.push([next, from])
      next = Math.max(next, offset + 1)
    }
    const kept = [...this.#state.open, ...unrun, ...open].map(
      ([from, end]): OffsetRange => [Math.max(from, this.#low), end],
    )
    return { id: this.id, epoch, old, next, open: joined(kept) }
  }
}

/** In order, without empty ranges; those that touch are one. */
function joined(ranges: readonly OffsetRange[]): readonly OffsetRange[] {
  const all: OffsetRange[] = []
  for (const range of ranges.toSorted(([one], [two]) => one - two)) {
    const [from, end] = range
    const last = all.at(-1)
    if (end <= from) continue
    if (last !== undefined && from <= last[1]) {
      all[all.length - 1] = [last[0], Math.max(last[1], end)]
    } else all.push(range)
  }
  return all
}
