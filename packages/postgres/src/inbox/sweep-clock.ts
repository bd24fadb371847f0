import type { Runtime } from '@onceward/core/ports'

/** What the server says at the beginning of a step. */
export interface SweepTime {
  /** Of the server's clock. */
  readonly nowMs: number
  /** Time of the last step of any guard. Null before the first step, and after an operator has confirmed the clock. */
  readonly sweptMs: number | null
  /** How often an operator has confirmed the clock. */
  readonly clock: number
  /** The shortest dedup window of all consumers. Null without consumers. */
  readonly shortestWindowMs: number | null
}

/** Clocks that are right differ by less, and a sweep that is wrong by this deletes nothing that a copy needs. */
const TOLERANCE_MS = 3_600_000
/** Without a running guard there is no sweep. A pause up to this, or up to half the shortest window, does not mean that a clock is wrong. */
const PAUSE_MS = 86_400_000

type Clocks = Pick<Runtime, 'now' | 'monotonic'>

/**
 * Decides whether the server's clock can be trusted with deleting rows by their age. A clock that is wrong by a window
 * would delete fresh rows, and copies of their events would run again. Where in doubt nothing is deleted, which costs
 * only space.
 */
export class SweepClock {
  readonly #clocks: Clocks
  /** The last step of this guard. */
  #last:
    | { readonly serverMs: number; readonly monotonicMs: number; readonly clock: number }
    | undefined

  constructor(clocks: Clocks) {
    this.#clocks = clocks
  }

  /** Why nothing may be deleted now; undefined if the clock is right. */
  doubt({ nowMs, sweptMs, shortestWindowMs, clock }: SweepTime): string | undefined {
    if (differ(nowMs, this.#clocks.now())) {
      return 'the clocks of the database and of this process differ by more than an hour'
    }
    if (sweptMs !== null && nowMs < sweptMs - TOLERANCE_MS) {
      return 'the clock of the database is behind the time of the last sweep by more than an hour'
    }
    // The operator knows more than the clocks of earlier steps.
    if (this.#last?.clock !== clock) {
      const pauseMs = Math.max(PAUSE_MS, (shortestWindowMs ?? 0) / 2)
      if (sweptMs === null || nowMs <= sweptMs + pauseMs) return undefined
      return 'no sweep has run for long, or the clock of the database was set forward'
    }
    const passedMs = this.#clocks.monotonic() - this.#last.monotonicMs
    if (!differ(nowMs, this.#last.serverMs + passedMs)) return undefined
    return 'the clock of the database was set by more than an hour since the last sweep of this process'
  }

  /** A step begins by this time. */
  trust({ nowMs, clock }: SweepTime): void {
    this.#last = { serverMs: nowMs, monotonicMs: this.#clocks.monotonic(), clock }
  }
}

const differ = (oneMs: number, otherMs: number): boolean => Math.abs(oneMs - otherMs) > TOLERANCE_MS
