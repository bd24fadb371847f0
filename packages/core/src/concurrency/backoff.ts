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
 * Milliseconds until the next attempt: between half and the whole of `baseMs` × 2ⁿ, at most `maxMs`.
 *
 * The jitter keeps consumers that failed together from retrying together. It covers the upper half only: with the full
 * range, the attempts of most events were spent within a fraction of the time that the doubling suggests.
 *
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ (*equal jitter*)
 */
export function backoffMs(backoff: Backoff): number {
  const halfMs = ceilingMs(backoff) / 2
  return Math.ceil(halfMs + backoff.random() * halfMs)
}

function ceilingMs({ attempt, baseMs, maxMs }: Omit<Backoff, 'random'>): number {
  const exponent = Math.max(0, attempt - 1)
  const longestMs = Math.min(maxMs, baseMs * 2 ** exponent)
  // 0 × 2^∞ is NaN. The ceiling is then `maxMs`, so that the loop does not retry without a pause.
  return Number.isFinite(longestMs) ? longestMs : maxMs
}

/**
 * Bounds for a loop that never gives up, ms. The first pause is about `baseMs`. Later pauses are not much longer than
 * `maxMs`.
 */
export interface BackoffRange {
  readonly baseMs: number
  readonly maxMs: number
}

/**
 * Milliseconds until a loop tries again after `failures` failures in a row: full jitter, plus at least half of
 * `baseMs`.
 */
export function pauseMs(
  { baseMs, maxMs }: BackoffRange,
  failures: number,
  random: () => number,
): number {
  const longestMs = ceilingMs({ attempt: failures + 1, baseMs, maxMs })
  return baseMs / 2 + Math.floor(random() * longestMs)
}

/**
 * A wait that a store answered, within `[0, mostMs]`. A store whose clock was set back, or a store with a defect, must
 * not hold an event for a day or longer.
 */
export function clampedMs(answeredMs: number, mostMs: number): number {
  return answeredMs <= mostMs ? Math.max(0, answeredMs) : mostMs
}

const FIRST_DELAY_MS = 1_000

const LONGEST_DELAY_MS = 30_000

/** Bounds memory. Beyond it, the oldest entry is dropped and its event starts again at one second. */
const REMEMBERED = 10_000

/**
 * Back-off for an event that another transaction holds: 1 s, doubling to 30 s, with jitter, at least 1 s (design.md §5;
 * brokers.md §5.9).
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
