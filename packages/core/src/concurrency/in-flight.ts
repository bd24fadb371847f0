import type { EventId } from '../model/brands.ts'
import type { Runtime } from '../model/runtime.ts'

/**
 * The events that this process has in flight. One process gets the same event twice when a visibility timeout expires
 * or a channel is lost (brokers.md X1). The second delivery then waits a little for the first.
 */
export interface InFlight {
  has(id: EventId): boolean
  /** Registers `id`. The returned function removes it. */
  start(id: EventId): () => void
  /** Whether the run of `id` ended within `waitMs`. */
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
  /** Created for the first waiter: most runs end without one. */
  awaited?: PromiseWithResolvers<void>
}
