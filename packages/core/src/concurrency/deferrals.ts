import type { EventId } from '../model/brands.ts'
import type { Runtime } from '../model/runtime.ts'

const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 30_000
/** Bounds memory: the oldest are forgotten, and then start again at one second. */
const REMEMBERED = 10_000

/**
 * How long to leave an event alone that another transaction holds: 1 s, doubling to 30 s, with jitter, never less
 * than 1 s (design.md §5; brokers.md §5.9).
 */
export interface HeldBackoff {
  nextMs(id: EventId): number
  forget(id: EventId): void
}

export function createHeldBackoff(runtime: Runtime): HeldBackoff {
  const counts = new Map<EventId, number>()
  return {
    nextMs: (id) => {
      const count = counts.get(id) ?? 0
      counts.delete(id)
      counts.set(id, Math.min(count + 1, 10))
      if (counts.size > REMEMBERED) {
        for (const oldest of counts.keys()) {
          counts.delete(oldest)
          break
        }
      }
      const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** count)
      return FIRST_DELAY_MS + runtime.random() * (longest - FIRST_DELAY_MS)
    },
    forget: (id) => {
      counts.delete(id)
    },
  }
}
