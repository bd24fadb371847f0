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
 * Remembers about as many ids as it has places. Each id has two places, and the older of their ids makes room for the
 * next: of the ten thousand ids added last, nine in ten are known, and of the thousand last, all but a few. A set would
 * keep them all, but each event would pay for the growth of the set and for its misses of the processor's cache.
 */
export function createRecentIds(places: number = PLACES): RecentIds {
  const pairs = Math.max(1, Math.floor(places / 2))
  const newer = new Array<EventId | undefined>(pairs).fill(undefined)
  const older = new Array<EventId | undefined>(pairs).fill(undefined)
  return {
    has: (id) => {
      const place = placeOf(id, pairs)
      return newer[place] === id || older[place] === id
    },
    add: (id) => {
      const place = placeOf(id, pairs)
      if (newer[place] === id) return
      older[place] = newer[place]
      newer[place] = id
    },
  }
}

/** Ids are hashes in hex digits, so five of them are enough. */
function placeOf(id: EventId, places: number): number {
  let sum = 0
  for (let at = 0; at < 5; at++) sum = (sum * 31 + id.charCodeAt(at)) | 0
  return Math.abs(sum) % places
}
