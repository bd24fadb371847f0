import { laneFollowerOutcome, type Outcome } from '../settlement/outcome.ts'
import { concludeCopies } from './copies.ts'
import { factsOf, type Processing } from './processing.ts'
import type { DeliveryGroup, Received } from './receive.ts'

interface Stop {
  readonly index: number
  readonly outcome: Outcome
}

/**
 * Where the lanes of one call have stopped. What is judged after the rest of the call must not pass these places, nor
 * what comes behind a message that could not be read.
 */
export class LaneStops {
  readonly #stops = new Map<string, Stop>()

  note(lane: string, stop: Stop): void {
    const before = this.#stops.get(lane)
    if (before === undefined || stop.index < before.index) this.#stops.set(lane, stop)
  }

  /** Defers the groups that came after the place where their lane has stopped. Returns the others. */
  async conclude(
    processing: Processing,
    groups: readonly DeliveryGroup[],
  ): Promise<readonly DeliveryGroup[]> {
    const free: DeliveryGroup[] = []
    for (const group of groups) {
      const outcome = this.followerOutcome(group)
      if (outcome === undefined) {
        free.push(group)
        continue
      }
      processing.observe(group.index, outcome, factsOf(group.member))
      await concludeCopies(processing, group, outcome)
    }
    return free
  }

  /** The outcome of an event that came after the place where its lane has stopped; undefined if it may run. */
  followerOutcome({ index, member: { lane } }: Received): Outcome | undefined {
    const stop = lane === undefined ? undefined : this.#stops.get(lane)
    return stop === undefined || index < stop.index ? undefined : laneFollowerOutcome(stop.outcome)
  }
}
