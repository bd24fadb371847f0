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
