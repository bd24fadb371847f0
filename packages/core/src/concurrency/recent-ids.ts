import type { EventId } from '../model/brands.ts'

/** Bounds memory: about two megabytes. */
const REMEMBERED = 10_000

/** The ids of events that were added last. A hint for speed, and never an answer. */
export interface RecentIds {
  has(id: EventId): boolean
  add(id: EventId): void
}

/**
 * Remembers at least the last `remembered` ids, and at most twice as many. Two sets take turns: to drop the oldest id
 * from one set, V8 would walk over all that were dropped before.
 */
export function createRecentIds(remembered: number = REMEMBERED): RecentIds {
  let current = new Set<EventId>()
  let earlier = new Set<EventId>()
  return {
    has: (id) => current.has(id) || earlier.has(id),
    add: (id) => {
      if (current.has(id)) return
      if (current.size === remembered) {
        earlier = current
        current = new Set()
      }
      current.add(id)
    },
  }
}
