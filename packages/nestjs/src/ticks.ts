import { setTimeout as pause } from 'node:timers/promises'
import {
  CommitUnknownError,
  ConfigurationError,
  InProgressError,
  LeaseLostError,
  StoreUnavailableError,
} from '@onceward/core'
import { DEFAULTS, systemRuntime } from '@onceward/core/ports'
import type { RunningConsumer } from './consumer.ts'
import { type CronJob, lastTickMs } from './schedule.ts'

/** What runs at the ticks of a method with `@OnceAt`. */
interface Parts {
  /** Of the consumer. */
  readonly name: string
  readonly once: RunningConsumer['once']
  readonly job: () => Promise<CronJob>
  readonly dedupWindowMs: number | undefined
}

/** Longest wait of a back-up before it looks again whether the process that runs has died, ms. */
const LOOK_MS = 2_000
/** Wait before a call that a store did not answer is repeated, ms. */
const OUTAGE_MS = 1_000

/** Runs each tick once among all processes: this one runs it, or waits until another one has. */
export class Ticks {
  readonly #parts: Parts
  readonly #ending = new AbortController()
  #newestMs = 0

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** The application ends: what waits for another process stops to wait. What runs is the guard's business. */
  stop(): void {
    this.#ending.abort()
  }

  /**
   * Called by the scheduler at a tick, or by the application for the last one.
   *
   * @returns What the method returned, in whichever process. Undefined if the application ends before.
   */
  async run(): Promise<unknown> {
    // Before anything else, because the job may be found late.
    const nowMs = systemRuntime.now()
    const tickMs = lastTickMs(await this.#parts.job(), nowMs)
    this.#refuseForgotten(tickMs, nowMs)
    this.#newestMs = Math.max(this.#newestMs, tickMs)
    const tick = new Date(tickMs).toISOString()
    while (!this.#ending.signal.aborted) {
      try {
        return await this.#parts.once({ key: tick, payload: { tick } })
      } catch (error) {
        const waitMs = this.#waitMs(error, tickMs)
        if (this.#ending.signal.aborted) return undefined
        if (waitMs === undefined) throw error
        await pause(waitMs, undefined, this.#ending).catch(() => undefined)
      }
    }
    return undefined
  }

  /** Whether a tick has run is known for as long as its row is kept. */
  #refuseForgotten(tickMs: number | undefined, nowMs: number): asserts tickMs is number {
    const { dedupWindowMs = DEFAULTS.dedupWindowMs, name } = this.#parts
    if (tickMs === undefined) {
      throw new ConfigurationError(`The schedule of ${name} has had no tick yet.`)
    }
    if (nowMs - tickMs < dedupWindowMs) return
    throw new ConfigurationError(
      `The last tick of ${name} was at ${new Date(tickMs).toISOString()}: whether it has run is known for \`dedupWindowMs\` alone. Set that longer than the interval, or do not call the method between its ticks.`,
    )
  }

  /** How long to wait before the next call with the key. Undefined: an error of the method, which each process runs once. */
  #waitMs(error: unknown, tickMs: number): number | undefined {
    if (error instanceof InProgressError) return Math.min(error.afterMs, LOOK_MS)
    const isOutage = [StoreUnavailableError, CommitUnknownError, LeaseLostError].some(
      (each) => error instanceof each,
    )
    // After a long outage the last tick runs, and not all of them.
    return isOutage && tickMs === this.#newestMs ? OUTAGE_MS : undefined
  }
}
