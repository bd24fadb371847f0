import type { EventId } from '../model/brands.ts'
import type { Runtime } from '../model/runtime.ts'

export interface Backoff {
  /** The attempt that failed, 1-based. */
  readonly attempt: number
  readonly baseMs: number
  readonly maxMs: number
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/**
 * Milliseconds until the next attempt: full jitter, uniform up to `baseMs` × 2ⁿ and never more than `maxMs`.
 *
 * Full jitter, because consumers that failed together must not come back together.
 *
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function backoffMs({ attempt, baseMs, maxMs, random }: Backoff): number {
  const exponent = Math.max(0, attempt - 1)
  const ceilingMs = Math.min(maxMs, baseMs * 2 ** exponent)
  // 0 × 2^∞ is not a number; a wait that is none must not become a hot loop.
  return Math.floor(random() * (Number.isFinite(ceilingMs) ? ceilingMs : maxMs))
}

/** Of a loop that never gives up, milliseconds: the first pause is about `baseMs`, none is much longer than `maxMs`. */
export interface BackoffRange {
  readonly baseMs: number
  readonly maxMs: number
}

/** Milliseconds until a loop tries again that has failed so often in a row before: full jitter, but never a hot loop. */
export function pauseMs(
  { baseMs, maxMs }: BackoffRange,
  failures: number,
  random: () => number,
): number {
  return baseMs / 2 + backoffMs({ attempt: failures + 1, baseMs, maxMs, random })
}

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
