import type { EpochMs } from '../model/brands.ts'
import type { Runtime } from '../model/runtime.ts'

const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
/** A probe that never reports is forgotten after this, so that the breaker cannot stay open for ever. */
const PROBE_MS = 10_000

/**
 * Stops asking a store that does not answer. After a pause, doubled from 1 s to 30 s with jitter, one probe
 * is let through (half-open); its success closes the breaker.
 */
export interface Breaker {
  /** `go`, or the milliseconds to wait before asking again. */
  admit(): 'go' | number
  succeeded(): void
  failed(error: unknown): void
  state(): { readonly retryAt: EpochMs; readonly error: unknown } | undefined
}

export function createBreaker(runtime: Runtime): Breaker {
  let failures = 0
  /** On the monotonic clock: one that is set back must not keep a store that answers away for so long. */
  let retryAtMs: number | undefined
  let lastError: unknown
  let probingUntilMs = Number.NEGATIVE_INFINITY

  const pauseMs = (): number => {
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1))
    return pause / 2 + (runtime.random() * pause) / 2
  }

  return {
    admit: () => {
      if (retryAtMs === undefined) return 'go'
      const nowMs = runtime.monotonic()
      if (retryAtMs > nowMs) return retryAtMs - nowMs
      if (nowMs < probingUntilMs) return FIRST_PAUSE_MS
      probingUntilMs = nowMs + PROBE_MS
      return 'go'
    },
    succeeded: () => {
      failures = 0
      retryAtMs = undefined
      lastError = undefined
      probingUntilMs = Number.NEGATIVE_INFINITY
    },
    failed: (error) => {
      lastError = error
      // Those that were under way when it opened say nothing new.
      if (retryAtMs !== undefined && runtime.monotonic() < retryAtMs) return
      failures += 1
      probingUntilMs = Number.NEGATIVE_INFINITY
      retryAtMs = runtime.monotonic() + pauseMs()
    },
    state: () => {
      if (retryAtMs === undefined) return undefined
      const retryAt = (runtime.now() + retryAtMs - runtime.monotonic()) as EpochMs
      return { retryAt, error: lastError }
    },
  }
}
