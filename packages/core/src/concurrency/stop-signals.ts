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
  bounded: StopSignals['bounded'] = (limitMs) => limitMs,
): StopSignals {
  return {
    // A loop without a function of its own, because every event asks several times.
    isStopping: () => {
      for (const stop of stops) if (stop?.aborted === true) return true
      return false
    },
    whenStopping: (onStop) => {
      const unsubscribes = stops.map((stop) => stop && listenersOf(stop).add(onStop))
      return () => {
        for (const unsubscribe of unsubscribes) unsubscribe?.()
      }
    },
    drain,
    bounded,
  }
}

interface Listeners {
  /** Adds a listener. The returned function removes it. */
  readonly add: (onStop: () => void) => () => void
}

const known = new WeakMap<AbortSignal, Listeners>()

/**
 * All listeners of a signal behind a single one: an `AbortSignal` looks through all its listeners whenever one is added
 * or removed, so `n` waiters would take `n²` steps.
 */
function listenersOf(signal: AbortSignal): Listeners {
  const listeners = known.get(signal) ?? createListeners(signal)
  known.set(signal, listeners)
  return listeners
}

function createListeners(signal: AbortSignal): Listeners {
  const waiting = new Set<() => void>()
  const onAbort = (): void => {
    for (const onStop of waiting) onStop()
  }
  return {
    add: (onStop) => {
      if (signal.aborted) return soon(onStop)
      if (waiting.size === 0) signal.addEventListener('abort', onAbort)
      waiting.add(onStop)
      return () => {
        waiting.delete(onStop)
        if (waiting.size === 0) signal.removeEventListener('abort', onAbort)
      }
    },
  }
}

function soon(onStop: () => void): () => void {
  let isSubscribed = true
  queueMicrotask(() => {
    if (isSubscribed) onStop()
  })
  return () => {
    isSubscribed = false
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
  /**
   * The limit, or what is left of the call's time if that is less: at least 1 ms, because 0 means no limit to Postgres. A
   * call without a limit of its own takes as long as its handlers.
   */
  readonly bounded: (limitMs: number) => number
}

/** Calls back when the signal aborts, at once if it has. Returns a function that removes the listener. */
export function onceAborted(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal?.aborted) callback()
  signal?.addEventListener('abort', callback, { once: true })
  return () => signal?.removeEventListener('abort', callback)
}
