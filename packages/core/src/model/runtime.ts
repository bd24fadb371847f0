import type { EpochMs } from './brands.ts'

/**
 * Time, randomness and ids: the only way the engine reaches any of them, so that it runs
 * unchanged under a simulated clock.
 */
export interface Runtime {
  /** Wall clock. */
  now(): EpochMs
  /** Milliseconds on a clock that never jumps. */
  monotonic(): number
  /** Uniform in [0, 1). */
  random(): number
  /** A random UUID. */
  uuid(): string
  /** One per process, shared by all guards in it: see {@link AloneLock}. */
  readonly alone: AloneLock
  /** Calls back once after `delayMs`; the answer cancels. `keepAlive: false` lets the process end meanwhile. */
  setTimer(
    callback: () => void,
    delayMs: number,
    options?: { readonly keepAlive: boolean },
  ): () => void
}

/**
 * "Alone": a fair read/write lock. A run holds it shared; the run of an event whose last attempt gave no
 * verdict holds it exclusively, so that a poison that kills the process takes nobody with it (design.md §6).
 */
export interface AloneLock {
  /** The release at once, where nobody stands in the way. */
  tryShared(): (() => void) | undefined
  /** Resolves with the release once no exclusive holder or earlier waiter is left. */
  shared(): Promise<() => void>
  exclusive(): Promise<() => void>
}
