import type { AloneLock, Runtime } from '@onceward/core/ports'

/** Longest wait of an event that must run alone, ms: so long, and no longer, it may hold back the runs behind it. */
const LONGEST_STALL_MS = 2_000
/** Sums of virtual times are not exact. */
const ROUNDING_MS = 0.001

export interface WatchedLockOptions {
  readonly lock: AloneLock
  /** Until then no timer of the process fires, ms of virtual time. */
  readonly frozenUntilMs: () => number
  readonly monotonic: Runtime['monotonic']
  /** A run waited for too long, not counting the time in which something ran alone. */
  readonly onStall: (forMs: number) => void
}

/** Measures how long runs wait behind events that wait for their turn to run alone. */
export function watched(options: WatchedLockOptions): AloneLock {
  const { frozenUntilMs, lock, monotonic, onStall } = options
  /** The lock knows a run by the function that it gave out itself. */
  const given = new WeakMap<() => void, () => void>()
  let endedAloneMs = 0
  let aloneSinceMs: number | undefined
  /** How long something ran alone, from the start of the process on. */
  const aloneMs = (): number =>
    endedAloneMs + (aloneSinceMs === undefined ? 0 : monotonic() - aloneSinceMs)
  return {
    version: 1,
    tryShared: () => lock.tryShared(),
    shared: (wait) => {
      const [sinceMs, aloneBeforeMs] = [monotonic(), aloneMs()]
      return lock.shared(wait).then((release) => {
        const waitedMs = monotonic() - Math.max(sinceMs, frozenUntilMs())
        const forMs = waitedMs - (aloneMs() - aloneBeforeMs)
        if (forMs > LONGEST_STALL_MS + ROUNDING_MS) onStall(forMs)
        return release
      })
    },
    exclusive: (wait) =>
      lock.exclusive(wait).then((release) => {
        if (release === undefined) return undefined
        aloneSinceMs = monotonic()
        const ended = (): void => {
          if (!given.delete(ended)) return
          endedAloneMs = aloneMs()
          aloneSinceMs = undefined
          release()
        }
        given.set(ended, release)
        return ended
      }),
    runInside: (release, task) => lock.runInside(given.get(release) ?? release, task),
    isInside: () => lock.isInside(),
  }
}
