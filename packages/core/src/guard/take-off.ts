import type { InFlight } from '../concurrency/in-flight.ts'
import { isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { DeliveryGroup } from './receive.ts'

/** Events that this process has in flight together, from their claim until each is settled. */
export interface Flight {
  /** Concludes an event once, and lands it whatever becomes of that. The answer of `conclude` must still run. */
  land(
    member: InFlightEvent,
    conclude: (group: DeliveryGroup) => MaybeAsync<readonly DeliveryGroup[]>,
  ): void
  /** Events without an outcome. */
  inTheAir(): readonly InFlightEvent[]
  /** Lands events without an outcome: their next delivery must not wait for a run that is over. */
  landRest(): void
  /** Resolves when all have landed, with the copies that must still run. */
  landed(): MaybeAsync<readonly DeliveryGroup[]>
}

export function takeOff(inFlight: InFlight, groups: readonly DeliveryGroup[]): Flight {
  const open = new Map(
    groups.map((group) => [
      group.member.event.id,
      { group, end: inFlight.start(group.member.event.id) },
    ]),
  )
  const copies: DeliveryGroup[] = []
  const concluding: Promise<readonly DeliveryGroup[]>[] = []
  return {
    land: ({ event: { id } }, conclude) => {
      const flying = open.get(id)
      if (flying === undefined) return
      open.delete(id)
      let left: MaybeAsync<readonly DeliveryGroup[]> = []
      try {
        left = conclude(flying.group)
      } finally {
        if (!isPromise(left)) flying.end()
      }
      if (isPromise(left)) concluding.push(left.finally(flying.end))
      else copies.push(...left)
    },
    inTheAir: () => [...open.values()].map(({ group }) => group.member),
    landRest: () => {
      for (const { end } of open.values()) end()
    },
    landed: () =>
      concluding.length === 0
        ? copies
        : Promise.all(concluding).then((left) => [...copies, ...left.flat()]),
  }
}
