import { createAloneLock, type Runtime, systemRuntime } from '@onceward/core/ports'

interface Timer {
  readonly atMs: number
  readonly callback: () => void
}

/**
 * A clock that moves on command; what it calls gets the time to continue before it moves further. Its runtime has a lock
 * of its own: handlers that other tests left hanging hold another one.
 */
export class Clock {
  #nowMs = 1_000_000
  readonly #timers = new Set<Timer>()
  /** Every timer that was set, for a test to look at, or to empty before it looks. */
  readonly asked: { readonly delayMs: number; readonly keepAlive: boolean | undefined }[] = []
  readonly runtime: Runtime = {
    ...systemRuntime,
    alone: createAloneLock(),
    now: () => this.#nowMs as ReturnType<Runtime['now']>,
    monotonic: () => this.#nowMs,
    random: () => 0.5,
    setTimer: (callback, delayMs, options) => {
      this.asked.push({ delayMs, keepAlive: options?.keepAlive })
      const timer = { atMs: this.#nowMs + delayMs, callback }
      this.#timers.add(timer)
      return () => this.#timers.delete(timer)
    },
  }

  get nowMs(): number {
    return this.#nowMs
  }

  /** Timers that have neither fired nor been cancelled. */
  get timers(): number {
    return this.#timers.size
  }

  /** Fires every timer that is due until then, in order. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    await turn()
    while (true) {
      const next = [...this.#timers].sort((a, b) => a.atMs - b.atMs)[0]
      if (next === undefined || next.atMs > untilMs) break
      this.#timers.delete(next)
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      next.callback()
      await turn()
    }
    this.#nowMs = untilMs
    await turn()
  }
}

/** Lets all promises that can continue do so. */
export async function turn(): Promise<void> {
  for (let round = 0; round < 5; round++) await new Promise((resolve) => setImmediate(resolve))
}
