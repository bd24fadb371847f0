import type { EventId } from '../model/brands.ts'

/** Bounds memory: about two megabytes of ids. */
const PLACES = 32_768

/** The ids of events that were added last. A hint for speed, and never an answer. */
export interface RecentIds {
  /** True only for an id that was added. */
  has(id: EventId): boolean
  add(id: EventId): void
}

/**
 * Remembers about as many ids as it has places. Each id has one place, which the next id with the same place takes:
 * of the ten thousand ids added last, more than eight in ten are known. A set would keep them all, but each event would pay for the
 * growth of the set and for its misses of the processor's cache.
 */
export function createRecentIds(places: number = PLACES): RecentIds {
  const ids: (EventId | undefined)[] = new Array<EventId | undefined>(places).fill(undefined)
  return {
    has: (id) => ids[placeOf(id, places)] === id,
    add: (id) => {
      ids[placeOf(id, places)] = id
    },
  }
}

/** Ids are hashes in hex digits, so five of them are enough. */
function placeOf(id: EventId, places: number): number {
  let sum = 0
  for (let at = 0; at < 5; at++) sum = (sum * 31 + id.charCodeAt(at)) | 0
  return Math.abs(sum) % places
}
