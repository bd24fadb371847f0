import { randomUUID } from 'node:crypto'
import { type AloneLock, processAloneLock } from '../concurrency/alone-lock.ts'
import { type EpochMs, toEpochMs } from './brands.ts'

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

export const systemRuntime: Runtime = {
  now: () => toEpochMs(Date.now()),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  uuid: () => randomUUID(),
  alone: processAloneLock(),
  setTimer: (callback, delayMs, options) => {
    const timer = setTimeout(callback, delayMs)
    if (options?.keepAlive === false) timer.unref()
    return () => clearTimeout(timer)
  },
}
