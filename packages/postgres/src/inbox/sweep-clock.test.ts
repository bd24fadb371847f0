import type { EpochMs } from '@onceward/core'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SweepClock, type SweepTime } from './sweep-clock.ts'

const HOUR_MS = 3_600_000
const WINDOW_MS = 15 * 24 * HOUR_MS

const DAY_MS = 24 * HOUR_MS
const NOW_MS = 1_000 * WINDOW_MS

/** What a new guard on a machine whose clock is right makes of a step. */
function doubtOf(over: Partial<SweepTime>, ownMs = NOW_MS): string | undefined {
  const clock = new SweepClock({ now: () => ownMs as EpochMs, monotonic: () => 0 })
  return clock.doubt({ nowMs: NOW_MS, sweptMs: null, clock: 0, shortestWindowMs: null, ...over })
}

test.each([
  ['an hour beside the clock of the process', {}, HOUR_MS, undefined],
  ['an hour and more beside the clock of the process', {}, HOUR_MS + 1, 'clocks of the database'],
  ['an hour before the last sweep', { sweptMs: NOW_MS + HOUR_MS }, 0, undefined],
  ['an hour and more before it', { sweptMs: NOW_MS + HOUR_MS + 1 }, 0, 'behind the time'],
  ['a day behind it', { sweptMs: NOW_MS - DAY_MS }, 0, undefined],
  ['a day and more behind it', { sweptMs: NOW_MS - DAY_MS - 1 }, 0, 'no sweep has run'],
  [
    'a day behind it, with short windows',
    { sweptMs: NOW_MS - DAY_MS, shortestWindowMs: HOUR_MS },
    ...[0, undefined],
  ],
  [
    'half a long window behind it',
    { sweptMs: NOW_MS - WINDOW_MS / 2, shortestWindowMs: WINDOW_MS },
    ...[0, undefined],
  ],
  [
    'half a long window and more behind it',
    { sweptMs: NOW_MS - WINDOW_MS / 2 - 1, shortestWindowMs: WINDOW_MS },
    ...[0, 'no sweep has run'],
  ],
] as const)('a first step %s is judged by its bound', (_, over, aheadMs, doubt) => {
  const found = doubtOf(over, NOW_MS + aheadMs)
  if (doubt === undefined) expect(found).toBeUndefined()
  else expect(found).toContain(doubt)
})

/** What happens before a step. */
const happening = fc.record({
  passedMs: fc.integer({ min: 0, max: HOUR_MS }),
  /** The server's clock is set: this far from the right time. */
  offMs: fc.option(fc.integer({ min: -2 * WINDOW_MS, max: 2 * WINDOW_MS }), { freq: 5 }),
  isRestarted: fc.boolean(),
})

// The server is simulated, because the time of a real one cannot be set. Red without one of the rules.
test.each([true, false])(
  'steps are trusted only where the clock went on as it should (one machine: %s)',
  (isOneMachine) => {
    const histories = fc.array(happening, { maxLength: 40 })
    fc.assert(
      fc.property(histories, (steps) => {
        let realMs = 1_000 * WINDOW_MS
        let offMs = 0
        let isRight = true
        let sweptMs: number | null = null
        let last: { readonly nowMs: number; readonly realMs: number } | undefined
        const clocks = {
          now: () => (realMs + (isOneMachine ? offMs : 0)) as EpochMs,
          monotonic: () => realMs,
        }
        let clock = new SweepClock(clocks)
        let isNew = true
        for (const step of steps) {
          realMs += step.passedMs
          offMs = step.offMs ?? offMs
          isRight &&= offMs === 0
          if (step.isRestarted) [clock, isNew] = [new SweepClock(clocks), true]
          const time = {
            ...{ nowMs: realMs + offMs, sweptMs, clock: 0, shortestWindowMs: WINDOW_MS },
          }
          const doubt = clock.doubt(time)
          if (isRight) expect(doubt).toBeUndefined()
          if (doubt !== undefined) continue
          if (!isOneMachine) expect(Math.abs(offMs)).toBeLessThanOrEqual(HOUR_MS)
          const setMs = last === undefined ? 0 : time.nowMs - last.nowMs - (realMs - last.realMs)
          expect(setMs).toBeLessThanOrEqual(isNew ? WINDOW_MS / 2 : HOUR_MS)
          expect(last?.nowMs ?? 0).toBeLessThanOrEqual(time.nowMs + HOUR_MS)
          clock.trust(time)
          isNew = false
          last = { nowMs: time.nowMs, realMs }
          sweptMs = Math.max(sweptMs ?? 0, time.nowMs)
        }
      }),
      { numRuns: 2_000 },
    )
  },
)
