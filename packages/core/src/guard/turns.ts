import type { EventId } from '../model/brands.ts'
import { stopsLane } from '../settlement/outcome.ts'
import { LaneStops } from './lane-stops.ts'
import type { Processing } from './processing.ts'
import type { DeliveryGroup } from './receive.ts'

type ProcessGroups = (processing: Processing, groups: readonly DeliveryGroup[]) => Promise<unknown>

/**
 * Processes the groups of a call in which a key comes with several payloads: one after the other, and what follows in
 * their lanes after both. The first payload may be the wrong one, and then the event itself is the second group, which
 * nothing behind it may overtake.
 */
export async function processInTurns(
  processing: Processing,
  groups: readonly DeliveryGroup[],
  process: ProcessGroups,
): Promise<void> {
  const stops = new LaneStops()
  const lanes = new Map(groups.map(({ index, member: { lane } }) => [index, lane]))
  const watched: Processing = {
    ...processing,
    observe: (index, outcome, facts) => {
      const lane = lanes.get(index)
      if (lane !== undefined && stopsLane(outcome)) stops.note(lane, { index, outcome })
      processing.observe(index, outcome, facts)
    },
  }
  for (const turn of toTurns(groups)) await process(watched, await stops.conclude(watched, turn))
}

/** In each turn an event is once, and no lane is ahead of an earlier turn. */
function toTurns(groups: readonly DeliveryGroup[]): readonly (readonly DeliveryGroup[])[] {
  const turns: DeliveryGroup[][] = []
  const next = {
    ofLane: new Map<string | undefined, number>(),
    ofEvent: new Map<EventId, number>(),
  }
  for (const group of groups) {
    const { event, lane } = group.member
    const turn = Math.max(next.ofLane.get(lane) ?? 0, next.ofEvent.get(event.id) ?? 0)
    if (lane !== undefined) next.ofLane.set(lane, turn)
    next.ofEvent.set(event.id, turn + 1)
    const together = turns[turn]
    if (together === undefined) turns[turn] = [group]
    else together.push(group)
  }
  return turns
}
