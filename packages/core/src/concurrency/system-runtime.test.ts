import { readdirSync, readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { systemRuntime } from './system-runtime.ts'

const AMBIENT =
  /\b(setTimeout|setInterval|setImmediate|Date\.now|new Date\(\)|Math\.random|performance\.now|randomUUID|getRandomValues|hrtime)\b/

test('only system-runtime.ts uses time, randomness and ids of the system', () => {
  const folder = new URL('..', import.meta.url)
  const offenders = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .filter((name) => name !== 'concurrency/system-runtime.ts' && !name.startsWith('fixtures/'))
    .filter((name) => AMBIENT.test(readFileSync(new URL(name, folder), 'utf8')))
  // `setImmediate` is not time, and deliveries for unit tests are made outside of any guard.
  expect(offenders.toSorted()).toEqual(['concurrency/next-turn.ts', 'memory/to-delivery.ts'])
})

// Node warns of such delays in the log of the application, and calls back at once for those that are too long.
test.each([
  [-6.5, 1],
  [0, 1],
  [20.5, 20.5],
  [2 ** 31, 2 ** 31 - 1],
  [Number.POSITIVE_INFINITY, 2 ** 31 - 1],
])('a timer of %d ms waits %d ms', (delayMs, waitedMs) => {
  const made = vi.spyOn(globalThis, 'setTimeout')
  systemRuntime.setTimer(() => undefined, delayMs)()
  expect(made.mock.lastCall?.[1]).toBe(waitedMs)
  made.mockRestore()
})
