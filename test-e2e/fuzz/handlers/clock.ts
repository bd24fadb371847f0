import type { EpochMs } from '@onceward/core'
import { type Runtime, systemRuntime } from '@onceward/core/ports'

/** No case waits for this deadline: a handler that hangs lets it pass. */
export const DEADLINE_MS = 60_001

/** Waits of onceward that a case would otherwise sit out in full, and what they last here. */
const SHORTER: ReadonlyMap<number, number> = new Map([
  [2_000, 200], // for a slot, and to run alone
])
/** How long statements that nobody awaited may run on. */
const UNAWAITED_MS = 10_000
const SHORT_UNAWAITED_MS = 150

/** A runtime that knows its timers. */
export interface CaseClock {
  readonly runtime: Runtime
  /** Lets the deadline pass that ends at this time. */
  passDeadline(deadlineAt: Date): void
  /** Between two rounds. */
  advance(ms: number): void
  /** Delays of the timers that are still running. */
  running(): readonly number[]
}

/** @param isUnawaitedShort - Whether a handler leaves a statement that does not end. */
export function createClock(random: () => number, isUnawaitedShort: boolean): CaseClock {
  let shiftMs = 0
  let lastMs = 0
  const timers = new Set<{ readonly delayMs: number }>()
  const deadlines = new Map<number, () => void>()
  // Always another time, so that a deadline tells whose it is.
  const now = (): EpochMs => {
    lastMs = Math.max(lastMs + 1, Date.now() + shiftMs)
    return lastMs as EpochMs
  }
  const setTimer: Runtime['setTimer'] = (callback, delayMs, options) => {
    const timer = { delayMs }
    timers.add(timer)
    const fire = (): void => {
      timers.delete(timer)
      callback()
    }
    const at = lastMs + delayMs
    // A handler's timer is the first after its deadline was computed.
    if (delayMs === DEADLINE_MS && !deadlines.has(at)) {
      deadlines.set(at, fire)
      return () => {
        timers.delete(timer)
        deadlines.delete(at)
      }
    }
    const isShort = delayMs === UNAWAITED_MS && isUnawaitedShort
    const ms = isShort ? SHORT_UNAWAITED_MS : (SHORTER.get(delayMs) ?? delayMs)
    const cancel = systemRuntime.setTimer(fire, ms, options)
    return () => {
      timers.delete(timer)
      cancel()
    }
  }
  return {
    runtime: {
      ...systemRuntime,
      now,
      random,
      setTimer,
      monotonic: () => systemRuntime.monotonic() + shiftMs,
    },
    passDeadline: (deadlineAt) => {
      const at = deadlineAt.getTime()
      const fire = deadlines.get(at)
      deadlines.delete(at)
      fire?.()
    },
    advance: (ms) => {
      shiftMs += ms
    },
    running: () => [...timers].map(({ delayMs }) => delayMs),
  }
}
