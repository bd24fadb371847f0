import type { EpochMs } from '../model/brands.ts'
import type { Release, Runtime } from '../model/runtime.ts'

const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
/** A probe that has not reported after this time no longer counts, so the breaker cannot stay open forever. */
const PROBE_MS = 10_000

/**
 * Stops calls to a store that does not answer. After a pause, doubled from 1 s to 30 s with jitter, one probe is let
 * through (half-open). A successful probe closes the breaker.
 */
export interface Breaker {
  /** `go`, or the milliseconds to wait before the next call. */
  admit(): 'go' | number
  /**
   * Ends the probe that was let through last. If it has reported neither success nor failure, it called no store, and
   * the next call is let through at once.
   */
  currentProbe(): Release
  succeeded(): void
  failed(error: unknown): void
  state(): { readonly retryAt: EpochMs; readonly error: unknown } | undefined
}

export function createBreaker(runtime: Runtime): Breaker {
  let failures = 0
  /** On the monotonic clock: a wall clock that is set back would prolong the pause. */
  let retryAtMs: number | undefined
  let lastError: unknown
  let probingUntilMs = Number.NEGATIVE_INFINITY
  let probes = 0

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
      probes += 1
      return 'go'
    },
    currentProbe: () => {
      const probe = probes
      return () => {
        // A later probe, if there is one, still runs.
        if (probe === probes) probingUntilMs = Number.NEGATIVE_INFINITY
      }
    },
    succeeded: () => {
      failures = 0
      retryAtMs = undefined
      lastError = undefined
      probingUntilMs = Number.NEGATIVE_INFINITY
    },
    failed: (error) => {
      lastError = error
      // Failures of calls that started before the breaker opened do not count.
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
