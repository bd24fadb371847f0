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
   * Calls back once after `delayMs`. The returned function cancels. `keepAlive: false` lets the process end meanwhile.
   */
  setTimer(
    callback: () => void,
    delayMs: number,
    options?: { readonly keepAlive: boolean },
  ): () => void
}

/**
 * A fair read/write lock. Each run holds it shared. An event whose last attempt gave no verdict runs with the lock held
 * exclusively. If such an event crashes the process, no other event is affected (design.md §6).
 */
export interface AloneLock {
  /** The release function, if the lock is free now. */
  tryShared(): (() => void) | undefined
  /** Resolves with the release function once there is no exclusive holder and no earlier waiter. */
  shared(): Promise<() => void>
  exclusive(): Promise<() => void>
}
