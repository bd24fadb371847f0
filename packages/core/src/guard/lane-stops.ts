import { laneFollowerOutcome, type Outcome } from '../settlement/outcome.ts'
import { concludeCopies } from './copies.ts'
import { factsOf, type Processing } from './processing.ts'
import type { DeliveryGroup } from './receive.ts'

interface Stop {
  readonly index: number
  readonly outcome: Outcome
}

/** Where the lanes of one call have stopped. Copies that run after the rest of the call must not pass these places. */
export class LaneStops {
  readonly #stops = new Map<string, Stop>()

  note(lane: string, stop: Stop): void {
    const before = this.#stops.get(lane)
    if (before === undefined || stop.index < before.index) this.#stops.set(lane, stop)
  }

  /** Defers the copies that came after the place where their lane has stopped. Returns the others. */
  async conclude(
    processing: Processing,
    copies: readonly DeliveryGroup[],
  ): Promise<readonly DeliveryGroup[]> {
    const free: DeliveryGroup[] = []
    for (const group of copies) {
      const stop = this.#stops.get(group.member.lane ?? '')
      if (stop === undefined || group.index < stop.index) {
        free.push(group)
        continue
      }
      const outcome = laneFollowerOutcome(stop.outcome)
      processing.observe(group.index, outcome, factsOf(group.member))
      await concludeCopies(processing, group, outcome)
    }
    return free
  }
}
