import type { Claimed } from '../lease/claim.ts'
import { isHeldElsewhere } from '../lease/wait-for-holder.ts'
import type { Received } from '../receive/receive.ts'
import type { Fence } from '../transaction/partition-fence.ts'
import type { Before } from './known.ts'
import type { Processing } from './processing.ts'

/**
 * The way of an event through step 3. `done`: it has its outcome. `place`: its place says whether it is new. `row`, `lease`:
 * that is what claims it. `none`: nothing does. `park`: it is stored, and runs later. `wait`: for another run of it.
 */
export type Route = 'done' | 'place' | 'row' | 'lease' | 'none' | 'park' | 'wait'

/** An event that is on its way through steps 2 to 5. */
export interface Routed extends Received {
  /** The lease store's answer, once it was asked. */
  claimed?: Claimed
  /** What was known of it before its claim, if there is an inbox. */
  known?: Before | undefined
  /** Ends the flight of the event in this process. Undefined before it began. */
  endFlight?: () => void
  /** It has its outcome. */
  isOver?: true
}

/** How events of one route are brought to their outcomes. An error ends those that have none. */
export type Strategy = (processing: Processing, events: readonly Routed[]) => Promise<unknown>

export function routeOf(
  { isParking, stores: { engine } }: Processing,
  { claimed, endFlight, hasKey, isOver, member }: Routed,
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
