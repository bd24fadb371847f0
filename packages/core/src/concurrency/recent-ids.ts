import type { EventId } from '../model/brands.ts'

/** Bounds memory: about a megabyte. */
const REMEMBERED = 10_000

/** The ids of events that were added last. A hint for speed, and never an answer. */
export interface RecentIds {
  has(id: EventId): boolean
  add(id: EventId): void
}

export function createRecentIds(remembered: number = REMEMBERED): RecentIds {
  const ids = new Set<EventId>()
  return {
    has: (id) => ids.has(id),
    add: (id) => {
      ids.add(id)
      if (ids.size <= remembered) return
      for (const oldest of ids) {
        ids.delete(oldest)
        return
      }
    },
  }
}
