import type { OnStop } from '../model/runtime.ts'

/** An item of a call, in delivery order. Without a lane, the item is independent of all others. */
export interface InLane {
  readonly index: number
  readonly lane?: string | undefined
}

/** The lane of a message that could not be read, where only a function of the user knows the lanes: any lane of its call. */
export const ANY_LANE: unique symbol = Symbol('any lane')

/** What an outcome means for the rest of its lane. */
export interface LaneRule<Outcome> {
  readonly stopsLane: (outcome: Outcome) => boolean
  readonly laneFollowerOutcome: (leader: Outcome) => Outcome
}

interface Stop<Outcome> {
  readonly index: number
  readonly outcome: Outcome
}

/**
 * The lanes of one call: events, messages without a key and messages that could not be read. A lane runs in delivery
 * order and stops at its first defer or abandon. What follows gets the same deferral, so that it does not overtake. Every
 * outcome is noted here, and nothing starts without asking here.
 */
export class Lanes<Outcome> {
  readonly #rule: LaneRule<Outcome>
  /** Made for the first lane that stops, because most calls have none. */
  #stops: Map<string | typeof ANY_LANE, Stop<Outcome>> | undefined

  constructor(rule: LaneRule<Outcome>) {
    this.#rule = rule
  }

  note(
    { index, lane }: Omit<InLane, 'lane'> & { lane?: string | typeof ANY_LANE | undefined },
    outcome: Outcome,
  ): void {
    if (lane === undefined || !this.#rule.stopsLane(outcome)) return
    this.#stops ??= new Map()
    const before = this.#stops.get(lane)
    if (before === undefined || index < before.index) this.#stops.set(lane, { index, outcome })
  }

  isStopped(lane: string | undefined): boolean {
    return this.#stops !== undefined && this.#stopOf(lane) !== undefined
  }

  /** The outcome of an item behind the one that stopped its lane. Undefined: the item may start in its turn. */
  followerOutcome({ index, lane }: InLane): Outcome | undefined {
    const stop = this.#stops === undefined ? undefined : this.#stopOf(lane)
    return stop === undefined || index <= stop.index
      ? undefined
      : this.#rule.laneFollowerOutcome(stop.outcome)
  }

  /** The first item that stopped the lane. */
  #stopOf(lane: string | undefined): Stop<Outcome> | undefined {
    if (lane === undefined || this.#stops === undefined) return undefined
    const own = this.#stops.get(lane)
    const any = this.#stops.get(ANY_LANE)
    if (own === undefined || any === undefined) return own ?? any
    return own.index < any.index ? own : any
  }
}

/**
 * Groups items that must run one after the other, in order: those of one lane, and those of one event. Items without
 * either get a group of their own.
 *
 * @param eventOf - Given if one event may come more than once.
 */
export function toLanes<Item>(
  items: readonly Item[],
  laneOf: (item: Item) => InLane,
  eventOf?: (item: Item) => string,
): readonly (readonly Item[])[] {
  const groups = new Set<Item[]>()
  const byLane = new Map<string, Item[]>()
  const byEvent = new Map<string, Item[]>()
  for (const item of items) {
    const { lane } = laneOf(item)
    const event = eventOf?.(item)
    const mates = lane === undefined ? undefined : byLane.get(lane)
    const copies = event === undefined ? undefined : byEvent.get(event)
    const group = mates ?? copies ?? []
    if (copies !== undefined && copies !== group) {
      // The event came in another lane before, so both lanes run as one.
      for (const moved of copies) {
        const { lane: from } = laneOf(moved)
        if (from !== undefined) byLane.set(from, group)
        byEvent.set(eventOf?.(moved) ?? '', group)
      }
      group.push(...copies)
      group.sort((a, b) => laneOf(a).index - laneOf(b).index)
      groups.delete(copies)
    }
    group.push(item)
    groups.add(group)
    if (lane !== undefined) byLane.set(lane, group)
    if (event !== undefined) byEvent.set(event, group)
  }
  return [...groups]
}

/** Those of `some` that follow, in their lane, another one of `all`. Both are in delivery order. */
export function overtaking<Item>(
  all: Iterable<Item>,
  some: readonly Item[],
  laneOf: (item: Item) => string | undefined,
): readonly Item[] {
  let blocked: Set<string> | undefined
  const early: Item[] = []
  let next = 0
  for (const item of all) {
    const isGoing = item === some[next]
    if (isGoing) next += 1
    const lane = laneOf(item)
    if (lane === undefined) continue
    if (!isGoing) {
      blocked ??= new Set()
      blocked.add(lane)
    } else if (blocked?.has(lane)) early.push(item)
  }
  return early
}

/** Splits items into batches of at most `size`, in order. */
export function chunks<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  const batches: (readonly Item[])[] = []
  for (let at = 0; at < items.length; at += size) batches.push(items.slice(at, at + size))
  return batches
}

/**
 * Runs the items in order, at most `width` at the same time, so that memory for running items depends on `width` alone.
 * After a stop no item waits for its turn: each ends at once, because it finds that it must not start.
 */
export async function inTurns<Item>(
  items: readonly Item[],
  { stop, width }: { readonly width: number; readonly stop: OnStop },
  run: (item: Item) => Promise<unknown>,
): Promise<void> {
  let next = 0
  const work = async (): Promise<void> => {
    while (next < items.length) {
      const item = items[next] as Item
      next += 1
      await run(item)
    }
  }
  const working = Array.from({ length: Math.min(width, items.length) }, work)
  let stopped: Promise<void> | undefined
  const unsubscribe = stop(() => {
    stopped = work()
  })
  await Promise.all(working).finally(unsubscribe)
  await stopped
}

/** Lanes that wait for other processes at the same time. Each has a timer and asks the lease store at most four times. */
export const WAITING_LANES = 1_000
