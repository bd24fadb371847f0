import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { seededRandom } from '../fixtures/random.ts'
import { createShift } from '../fixtures/shift.ts'
import { toEpochMs } from '../model/brands.ts'
import { createBreaker } from './breaker.ts'

test('the breaker lets all calls through until a failure, then none until the pause is over', () => {
  const { runtime, forward } = createShift(() => 1)
  const breaker = createBreaker(runtime)
  expect([breaker.admit(), breaker.admit()]).toEqual(['go', 'go'])
  breaker.failed(new Error('down'))
  expect(breaker.admit()).toBeGreaterThan(0)
  expect(breaker.state()?.error).toMatchObject({ message: 'down' })
  forward(1_001)
  expect(breaker.admit()).toBe('go')
})

test('a half-open breaker lets one probe through, and a successful probe closes it', () => {
  const { runtime, forward } = createShift(() => 1)
  const breaker = createBreaker(runtime)
  breaker.failed(new Error('down'))
  forward(1_001)
  expect(breaker.admit()).toBe('go')
  expect(breaker.admit()).not.toBe('go')
  breaker.succeeded()
  expect(breaker.admit()).toBe('go')
  expect(breaker.state()).toBeUndefined()
})

test('a probe that never reports does not keep the breaker open forever', () => {
  const { runtime, forward } = createShift(() => 1)
  const breaker = createBreaker(runtime)
  breaker.failed(new Error('down'))
  forward(1_001)
  breaker.admit()
  forward(10_001)
  expect(breaker.admit()).toBe('go')
})

test('pauses double up to thirty seconds; failures of earlier calls do not add to them', () => {
  const { runtime, forward } = createShift(() => 1)
  const breaker = createBreaker(runtime)
  const pauses: number[] = []
  for (let n = 0; n < 8; n += 1) {
    for (let inFlight = 0; inFlight < 20; inFlight += 1) breaker.failed(new Error('down'))
    const pause = Number(breaker.admit())
    pauses.push(Math.round(pause / 1_000))
    forward(pause + 1)
    breaker.admit()
  }
  expect(pauses).toEqual([1, 2, 4, 8, 16, 30, 30, 30])
})

test('half of a pause is fixed, the other half is random', () => {
  const pauses = [0, 0.5, 1].map((chance) => {
    const breaker = createBreaker({ ...new Clock().runtime, random: () => chance })
    breaker.failed(new Error('down'))
    return breaker.admit()
  })
  expect(pauses).toEqual([500, 750, 1_000])
})

test('probes are ten seconds apart, and other callers are told to wait one second', () => {
  const clock = new Clock()
  const breaker = createBreaker({ ...clock.runtime, random: () => 1 })
  breaker.failed(new Error('down'))
  clock.advance(1_000)
  expect(breaker.admit()).toBe('go')
  clock.advance(9_999)
  expect(breaker.admit()).toBe(1_000)
  clock.advance(1)
  expect(breaker.admit()).toBe('go')
})

test('a failed probe starts a longer pause, and after a success pauses are short again', () => {
  const clock = new Clock()
  const breaker = createBreaker({ ...clock.runtime, random: () => 1 })
  breaker.failed(new Error('down'))
  clock.advance(1_000)
  breaker.admit()
  breaker.failed(new Error('still down'))
  expect(breaker.state()).toMatchObject({ error: { message: 'still down' } })
  expect(breaker.admit()).toBe(2_000)
  clock.advance(2_000)
  expect(breaker.admit()).toBe('go')
  breaker.succeeded()
  breaker.failed(new Error('down again'))
  expect(breaker.admit()).toBe(1_000)
  clock.advance(1_000)
  expect(breaker.admit()).toBe('go')
})

// Red when the pause is measured on the wall clock: it would last a day.
test('a wall clock that is set back prolongs neither the pause nor the reported retry time', () => {
  const { runtime, forward } = createShift(() => 1)
  let setBackMs = 0
  const now: typeof runtime.now = () => toEpochMs(runtime.now() - setBackMs)
  const breaker = createBreaker({ ...runtime, now })
  breaker.failed(new Error('down'))
  setBackMs = 86_400_000
  expect((breaker.state()?.retryAt ?? 0) - now()).toBeLessThanOrEqual(1_000)
  forward(1_001)
  expect(breaker.admit()).toBe('go')
})

/** One random history of a breaker, checked after each step against what its callers know. */
function history(seed: number): void {
  const random = seededRandom(seed)
  const clock = new Clock()
  const breaker = createBreaker({ ...clock.runtime, random })
  const probes: (() => void)[] = []
  /** The probe that is on its way, and since when. */
  let current: { readonly end: () => void; readonly sinceMs: number } | undefined
  const nowMs = (): number => clock.runtime.monotonic()
  for (let step = 0; step < 200; step += 1) {
    const message = `seed ${seed}, step ${step}`
    const what = random()
    if (what < 0.35) {
      const isClosed = breaker.state() === undefined
      const isPaused = (breaker.state()?.retryAt ?? 0) > clock.runtime.now()
      const isProbing = current !== undefined && nowMs() < current.sinceMs + 10_000
      const admission = breaker.admit()
      expect(admission === 'go', message).toBe(isClosed || (!isPaused && !isProbing))
      if (admission !== 'go') {
        expect(admission, message).toBeGreaterThan(0)
        expect(admission, message).toBeLessThanOrEqual(30_000)
      } else if (!isClosed) {
        current = { end: breaker.currentProbe(), sinceMs: nowMs() }
        probes.push(current.end)
      }
    } else if (what < 0.55) {
      // Any probe may end, also one that has reported, ended before, or was followed by another.
      const end = probes[Math.floor(random() * probes.length)]
      end?.()
      if (end === current?.end) current = undefined
    } else if (what < 0.7) {
      const isIgnored = (breaker.state()?.retryAt ?? 0) > clock.runtime.now()
      breaker.failed(new Error('down'))
      if (!isIgnored) current = undefined
    } else if (what < 0.75) {
      breaker.succeeded()
      current = undefined
    } else clock.advance(Math.floor(random() * 12_000))
  }
}

// Red before: a probe that called no store kept the guard down for another ten seconds.
test('in random histories one probe is on its way at most, and a probe that ends unspent frees the way for the next', () => {
  for (let seed = 0; seed < 300; seed += 1) history(seed)
})
