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
  // `setImmediate` is not time, deliveries for unit tests are made outside of any guard, and `node.ts` only names what Node has.
  const right = ['concurrency/next-turn.ts', 'memory/to-delivery.ts', 'node.ts']
  expect(offenders.toSorted()).toEqual(right)
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

test('a timer keeps the process, unless it need not, and ends when it is cancelled', () => {
  const made = vi.spyOn(globalThis, 'setTimeout')
  const cancels = [undefined, { keepAlive: true }, { keepAlive: false }].map((options) =>
    systemRuntime.setTimer(() => undefined, 60_000, options),
  )
  const timers = made.mock.results.map(({ value }) => value as NodeJS.Timeout)
  expect(timers.map((timer) => timer.hasRef())).toEqual([true, true, false])
  const ended = vi.spyOn(globalThis, 'clearTimeout')
  for (const cancel of cancels) cancel()
  expect(ended.mock.calls.flat()).toEqual(timers)
  made.mockRestore()
  ended.mockRestore()
})

test('chance and ids are those of the system', () => {
  const drawn = Array.from({ length: 10 }, () => systemRuntime.random())
  expect(new Set(drawn).size).toBe(10)
  for (const number of drawn) expect(number >= 0 && number < 1).toBe(true)
  expect(systemRuntime.uuid()).toMatch(/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/)
})
