import { isHeldElsewhere } from '../lease/wait-for-holder.ts'
import type { Fence } from '../transaction/partition-fence.ts'
import type { Processing } from './processing.ts'
import type { Received } from './receive.ts'

/**
 * The way of an event through step 3. `done`: it has its outcome. `place`: its place says whether it is new. `row`, `lease`:
 * that is what claims it. `none`: nothing does. `park`: it is stored, and runs later. `wait`: for another run of it.
 */
export type Route = 'done' | 'place' | 'row' | 'lease' | 'none' | 'park' | 'wait'

/** How events of one route are brought to their outcomes. An error ends those that have none. */
export type Strategy = (processing: Processing, events: readonly Received[]) => Promise<unknown>

export function routeOf(
  { isParking, stores: { engine } }: Processing,
  { claimed, endFlight, hasKey, isOver, member }: Received,
): Route {
  const { place } = member.event.delivery
  if (isOver === true) return 'done'
  // Whatever has happened to a record makes it an exception, whose row decides.
  const isClean = place !== undefined && (place.fence as Fence).regimeOf(place.offset) !== 'row'
  if (isClean && engine !== undefined) return 'place'
  if (!hasKey) return 'none'
  if (isParking) return 'park'
  // The other run is one of this process, or one of another.
  if (endFlight === undefined || (claimed !== undefined && isHeldElsewhere(claimed))) return 'wait'
  return engine === undefined ? 'lease' : 'row'
}
