import type { OnStop } from '../model/runtime.ts'

/** Time that handlers have to end after a drain has aborted their signals, ms. */
export const ABORT_GRACE_MS = 2_000

/**
 * Stops as soon as one of the signals aborts. Listeners are added only while somebody waits, because most runs never
 * wait.
 */
export function stopSignals(
  stops: readonly (AbortSignal | undefined)[],
  drain?: AbortSignal | undefined,
): StopSignals {
  return {
    isStopping: () => stops.some((stop) => stop?.aborted === true),
    whenStopping: (onStop) => {
      for (const stop of stops) stop?.addEventListener('abort', onStop, { once: true })
      return () => {
        for (const stop of stops) stop?.removeEventListener('abort', onStop)
      }
    },
    drain,
  }
}

/** The stop signals of one call of `run`. */
export interface StopSignals {
  /** True: start no more runs. */
  readonly isStopping: () => boolean
  /** Calls back once `isStopping` is true. The returned function unsubscribes. */
  readonly whenStopping: OnStop
  /** Aborted: abort the running handlers. */
  readonly drain: AbortSignal | undefined
}
