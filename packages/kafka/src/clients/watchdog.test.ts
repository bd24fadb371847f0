import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { silenceOf, Watchdog } from './watchdog.ts'

test('the watchdog reports once, after silence for the whole limit', async () => {
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, 1_000)
  let barks = 0
  watchdog.begin(() => {
    barks += 1
  })
  await clock.advance(900)
  watchdog.heard()
  await clock.advance(999)
  expect(barks).toBe(0)
  await clock.advance(1)
  expect([barks, clock.timers]).toEqual([1, 0])
})

test('the watchdog reports nothing after its end, and only to the last listener', async () => {
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, 1_000)
  const barks: string[] = []
  watchdog.begin(() => barks.push('first'))
  watchdog.begin(() => barks.push('second'))
  await clock.advance(1_000)
  expect(barks).toEqual(['second'])
  watchdog.begin(() => barks.push('third'))
  watchdog.end()
  expect(clock.timers).toBe(0)
})

// Red when the limit is only the session: a member that waits for others to rejoin would be replaced.
test.each([
  [{ sessionTimeout: 10_000 }, 70_000],
  [{ sessionTimeout: 10_000, rebalanceTimeout: 5_000 }, 20_000],
  [{ sessionTimeout: 10_000, rebalanceTimeout: 120_000 }, 130_000],
])('the limit with %o is %i ms', (times, limitMs) => {
  expect(silenceOf(times)).toBe(limitMs)
})
