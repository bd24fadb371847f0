import type { EpochMs } from './brands.ts'

/**
 * Time, randomness and ids. The engine gets them only from here, so that it runs unchanged on a simulated clock.
 */
export interface Runtime {
  /** Wall clock. */
  now(): EpochMs
  /** Milliseconds on a monotonic clock. */
  monotonic(): number
  /** Uniform in [0, 1). */
  random(): number
  /** A random UUID. */
  uuid(): string
  /** One lock per process, shared by all its guards: see {@link AloneLock}. */
  readonly alone: AloneLock
  /**
   * Calls back once after `delayMs`, or at once if that is not positive. The returned function cancels.
   * `keepAlive: false` lets the process end meanwhile.
   */
  setTimer(
    callback: () => void,
    delayMs: number,
    options?: { readonly keepAlive: boolean },
  ): () => void
}

/** Ends what was granted. A second call does nothing. */
export type Release = () => void

/** Calls the listener once waiting is pointless. The returned function unsubscribes. */
export type OnStop = (onStop: () => void) => () => void

/** What ends a wait. */
export interface Wait {
  readonly stop?: OnStop | undefined
  /** Maximum wait, ms on the clock of the runtime. */
  readonly limit?: { readonly runtime: Runtime; readonly ms: number } | undefined
}

/**
 * A fair read/write lock. Each run holds it shared. An event whose last attempt gave no verdict runs with the lock held
 * exclusively. If such an event crashes the process, no other event is affected (design.md §6).
 *
 * All copies of onceward in a process share one lock, so its shape has a version.
 */
export interface AloneLock {
  readonly version: 1
  /** The release function, if the lock is free now. */
  tryShared(): Release | undefined
  /**
   * Resolves with the release function once there is no exclusive holder and no earlier waiter. Resolves with undefined
   * if the wait was ended.
   */
  shared(wait?: Wait): Promise<Release | undefined>
  /**
   * Like {@link shared}, once nothing else runs. A run inside another run is never alone, so it gets undefined at once.
   */
  exclusive(wait?: Wait): Promise<Release | undefined>
  /**
   * Calls `task`. Runs that the task starts are part of the run that `release` ends, so they do not wait for the lock,
   * which is free again when all of them have ended.
   */
  runInside<Result>(release: Release, task: () => Result): Result
  /** Whether the caller is inside a run, because a handler processes another delivery itself. */
  isInside(): boolean
}
