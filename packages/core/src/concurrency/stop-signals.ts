import type { OnStop } from './semaphore.ts'

/** After a drain has aborted the signals of running handlers: how long handlers have to end by themselves. */
export const ABORT_GRACE_MS = 2_000

/** Stops as soon as one of the signals aborts; listens only where somebody waits, because most runs never do. */
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

/** How one call of `run` is told to stop. */
export interface StopSignals {
  /** Start nothing more. */
  readonly isStopping: () => boolean
  /** Calls back once that is so; the answer unsubscribes. */
  readonly whenStopping: OnStop
  /** Abort what runs. */
  readonly drain: AbortSignal | undefined
}
