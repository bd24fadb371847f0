import { expect, test } from 'vitest'
import { backoffMs, pauseMs } from './backoff.ts'

const almostOne = () => 1 - Number.EPSILON
const ceilings = (attempts: readonly number[]) =>
  attempts.map((attempt) =>
    backoffMs({ attempt, baseMs: 1_000, maxMs: 300_000, random: almostOne }),
  )

test('the ceiling doubles up to the maximum', () => {
  expect(ceilings([1, 2, 3, 4, 9, 10, 11])).toEqual([
    999, 1_999, 3_999, 7_999, 255_999, 299_999, 299_999,
  ])
})

test('the delay is spread over the whole range', () => {
  for (const share of [0, 0.25, 0.5, 0.75]) {
    const random = () => share
    expect(backoffMs({ attempt: 3, baseMs: 1_000, maxMs: 300_000, random })).toBe(4_000 * share)
  }
})

test('the delay stays at the maximum if the number overflows, and is never NaN', () => {
  expect(ceilings([1_024, 5_000, Number.MAX_SAFE_INTEGER])).toEqual([299_999, 299_999, 299_999])
  const zero = backoffMs({ attempt: 5_000, baseMs: 0, maxMs: 300_000, random: almostOne })
  expect(zero).toBe(299_999)
  expect(backoffMs({ attempt: 0, baseMs: 1_000, maxMs: 300_000, random: almostOne })).toBe(999)
})

test('a loop that never gives up waits at least half of the base, and not much longer than the maximum', () => {
  const pauses = { baseMs: 200, maxMs: 5_000 }
  expect(pauseMs(pauses, 0, () => 0)).toBe(100)
  expect([0, 1, 2, 5, 1_000].map((failures) => pauseMs(pauses, failures, almostOne))).toEqual([
    299, 499, 899, 5_099, 5_099,
  ])
})
