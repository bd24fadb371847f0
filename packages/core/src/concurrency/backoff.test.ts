import { expect, test } from 'vitest'
import { seededRandom } from '../fixtures/random.ts'
import { backoffMs, clampedMs, pauseMs } from './backoff.ts'

const almostOne = () => 1 - Number.EPSILON
const waits = (random: () => number, attempts: readonly number[]) =>
  attempts.map((attempt) => backoffMs({ attempt, baseMs: 1_000, maxMs: 300_000, random }))

test('the longest wait doubles up to the maximum, and the shortest is half of it', () => {
  const attempts = [1, 2, 3, 4, 9, 10, 11]
  const longest = [1_000, 2_000, 4_000, 8_000, 256_000, 300_000, 300_000]
  expect(waits(almostOne, attempts)).toEqual(longest)
  expect(waits(() => 0, attempts)).toEqual(longest.map((ms) => ms / 2))
})

// Red before: with jitter over the whole range most events spent their attempts within seconds.
test('any wait is between half and the whole of the doubled base, and at most the maximum', () => {
  const random = seededRandom(7)
  const upTo = (most: number): number => Math.floor(random() * (most + 1))
  for (let n = 0; n < 10_000; n += 1) {
    const [attempt, baseMs, maxMs] = [1 + upTo(1_100), upTo(10_000), upTo(43_200_000)]
    const whole = Math.min(maxMs, baseMs * 2 ** (attempt - 1))
    const longest = Number.isFinite(whole) ? whole : maxMs
    const wait = backoffMs({ attempt, baseMs, maxMs, random })
    const message = JSON.stringify({ attempt, baseMs, maxMs, wait })
    expect(wait, message).toBeGreaterThanOrEqual(longest / 2)
    expect(wait, message).toBeLessThanOrEqual(longest)
  }
})

test('the wait is spread over the upper half', () => {
  for (const share of [0, 0.25, 0.5, 0.75]) {
    expect(waits(() => share, [3])).toEqual([2_000 + 2_000 * share])
  }
})

test('the wait stays at the maximum if the number overflows, and is never NaN', () => {
  const attempts = [1_024, 5_000, Number.MAX_SAFE_INTEGER]
  expect(waits(almostOne, attempts)).toEqual([300_000, 300_000, 300_000])
  const zero = backoffMs({ attempt: 5_000, baseMs: 0, maxMs: 300_000, random: almostOne })
  expect(zero).toBe(300_000)
  expect(waits(almostOne, [0])).toEqual([1_000])
})

test('a loop that never gives up waits at least half of the base, and not much longer than the maximum', () => {
  const pauses = { baseMs: 200, maxMs: 5_000 }
  expect(pauseMs(pauses, 0, () => 0)).toBe(100)
  expect([0, 1, 2, 5, 1_000].map((failures) => pauseMs(pauses, failures, almostOne))).toEqual([
    299, 499, 899, 5_099, 5_099,
  ])
})

test.each([
  [-5, 0],
  [0, 0],
  [7, 7],
  [10, 10],
  [11, 10],
  [Number.POSITIVE_INFINITY, 10],
  [Number.NaN, 10],
])('a wait of %d ms that a store answers is %d ms if it may be 10 ms', (answeredMs, waitMs) => {
  expect(clampedMs(answeredMs, 10)).toBe(waitMs)
})
