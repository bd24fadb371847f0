import type { EventId } from '../model/brands.ts'
import type { Runtime } from '../model/runtime.ts'

/**
 * Events this process has in hand. The same process gets the same event twice when a visibility runs out or a
 * channel is lost (brokers.md X1); the second delivery waits a little, instead of fighting for a row with itself.
 */
export interface InFlight {
  has(id: EventId): boolean
  /** Registers `id`; the answer ends the flight. */
  start(id: EventId): () => void
  /** Whether the flight of `id` ended within `waitMs`. */
  waitFor(id: EventId, waitMs: number): Promise<boolean>
}

export function createInFlight(runtime: Runtime): InFlight {
  const flights = new Map<EventId, Flight>()
  return {
    has: (id) => flights.has(id),
    start: (id) => {
      const flight: Flight = {}
      flights.set(id, flight)
      return () => {
        if (flights.get(id) === flight) flights.delete(id)
        flight.awaited?.resolve()
      }
    },
    waitFor: async (id, waitMs) => {
      const flight = flights.get(id)
      if (flight === undefined) return true
      flight.awaited ??= Promise.withResolvers<void>()
      const late = Promise.withResolvers<void>()
      const cancel = runtime.setTimer(late.resolve, waitMs)
      await Promise.race([flight.awaited.promise, late.promise])
      cancel()
      return !flights.has(id)
    },
  }
}

interface Flight {
  /** Made for the first who waits: most flights end without one. */
  awaited?: PromiseWithResolvers<void>
}
