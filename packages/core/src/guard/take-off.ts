import type { InFlight } from '../concurrency/in-flight.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { EventId } from '../model/brands.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { DeliveryGroup } from './receive.ts'

/** The events of one call that are in flight, from the claim of each until its settlement. */
export interface Flight {
  /** Concludes an event once, and ends its flight even if `toCopies` throws. `toCopies` returns the copies still to run. */
  conclude(
    member: InFlightEvent,
    toCopies: (group: DeliveryGroup) => MaybeAsync<readonly DeliveryGroup[]>,
  ): void
  /** Events without an outcome. */
  unconcluded(): readonly InFlightEvent[]
  /** Ends the flight of events without an outcome, so that their next delivery does not wait for a finished run. */
  endRest(): void
  /** Resolves when all events are concluded, with the copies that must still run. */
  concluded(): MaybeAsync<readonly DeliveryGroup[]>
}

const NONE: readonly DeliveryGroup[] = []

export function takeOff(inFlight: InFlight, groups: readonly DeliveryGroup[]): Flight {
  const open = new Map<EventId, { readonly group: DeliveryGroup; readonly end: () => void }>()
  for (const group of groups) {
    const { id } = group.member.event
    open.set(id, { group, end: inFlight.start(id) })
  }
  const copies: DeliveryGroup[] = []
  const concluding: Promise<readonly DeliveryGroup[]>[] = []
  return {
    conclude: ({ event: { id } }, toCopies) => {
      const entry = open.get(id)
      if (entry === undefined) return
      open.delete(id)
      let left: MaybeAsync<readonly DeliveryGroup[]> = NONE
      try {
        left = toCopies(entry.group)
      } finally {
        if (!(left instanceof Promise)) entry.end()
      }
      if (left instanceof Promise) concluding.push(left.finally(entry.end))
      else if (left.length > 0) copies.push(...left)
    },
    unconcluded: () => [...open.values()].map(({ group }) => group.member),
    endRest: () => {
      for (const { end } of open.values()) end()
    },
    concluded: () =>
      concluding.length === 0
        ? copies
        : Promise.all(concluding).then((left) => [...copies, ...left.flat()]),
  }
}
