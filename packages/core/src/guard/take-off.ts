import type { InFlight } from '../concurrency/in-flight.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { EventId } from '../model/brands.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { DeliveryGroup } from './receive.ts'

/** The events of one call that are in flight, from the claim of each until its settlement. */
export interface Flight {
  /** Concludes an event once. Its flight ends when `toSettled` has, also if it throws. */
  conclude(member: InFlightEvent, toSettled: (group: DeliveryGroup) => MaybeAsync<void>): void
  /** Events without an outcome. */
  unconcluded(): readonly InFlightEvent[]
  /**
   * Ends the flight of events without an outcome, so that their next delivery does not wait for a finished run. Resolves
   * when all others are concluded.
   */
  land(): MaybeAsync<unknown>
}

export function takeOff(inFlight: InFlight, groups: readonly DeliveryGroup[]): Flight {
  const open = new Map<EventId, { readonly group: DeliveryGroup; readonly end: () => void }>()
  for (const group of groups) {
    const { id } = group.member.event
    open.set(id, { group, end: inFlight.start(id) })
  }
  const concluding: Promise<void>[] = []
  return {
    conclude: ({ event: { id } }, toSettled) => {
      const entry = open.get(id)
      if (entry === undefined) return
      open.delete(id)
      let settling: MaybeAsync<void> | undefined
      try {
        settling = toSettled(entry.group)
      } finally {
        if (!(settling instanceof Promise)) entry.end()
      }
      if (settling instanceof Promise) concluding.push(settling.finally(entry.end))
    },
    unconcluded: () => [...open.values()].map(({ group }) => group.member),
    land: () => {
      for (const { end } of open.values()) end()
      return concluding.length === 0 ? undefined : Promise.all(concluding)
    },
  }
}
