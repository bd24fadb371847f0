import type { StopSignals } from '../transaction/engine.ts'

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
