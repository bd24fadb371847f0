import { expect, test } from 'vitest'
import { StoreUnavailableError } from '../model/errors.ts'
import type { Runtime } from '../model/runtime.ts'
import { isGuardClosed, Recovery } from './recovery.ts'

function recovering() {
  const logged: [string, object][] = []
  const say = (fields: object, text: string): void => void logged.push([text, fields])
  const logger = { debug: say, info: say, warn: say, error: say }
  const timers: { readonly delayMs: number; readonly fire: () => void; isCancelled: boolean }[] = []
  const setTimer: Runtime['setTimer'] = (fire, delayMs) => {
    const timer = { delayMs, fire, isCancelled: false }
    timers.push(timer)
    return () => {
      timer.isCancelled = true
    }
  }
  const runtime = { setTimer, random: () => 0.5 } as Runtime
  const counts = { retries: 0 }
  const recovery = new Recovery<'denied'>({
    port: { logger, runtime },
    fields: { queue: 'orders' },
    classifyError: (error) => ({ kind: 'denied', text: String(error) }),
    backoff: { denied: { baseMs: 1_000, maxMs: 8_000 }, network: { baseMs: 100, maxMs: 200 } },
    onRetry: () => {
      counts.retries += 1
    },
  })
  return { logged, timers, counts, recovery }
}

test('an outage is logged when it begins, when it changes and when it ends, not at each try', () => {
  const { logged, recovery } = recovering()
  const refused = { state: 'recovering', reason: 'refused' } as const
  const down = { state: 'paused', reason: 'the store is down' } as const
  const again = { ...refused, reason: 'not there' }
  for (const outage of [refused, { ...refused }, again, down]) recovery.begin(outage)
  expect(recovery.outage).toBe(down)
  expect(recovery.end()).toBe(down)
  expect(recovery.outage).toBeUndefined()
  expect(logged).toEqual([
    ['the consumer receives nothing now', { queue: 'orders', ...refused }],
    ['the consumer receives nothing now', { queue: 'orders', ...again }],
    ['the consumer receives nothing now', { queue: 'orders', ...down }],
    ['the consumer receives again', { queue: 'orders' }],
  ])
})

test('nothing is logged when no outage ends', () => {
  const { logged, recovery } = recovering()
  expect(recovery.end()).toBeUndefined()
  expect(logged).toEqual([])
})

test('what fails after a stop is not logged: the consumer was to receive nothing', () => {
  const { logged, recovery } = recovering()
  recovery.stop()
  recovery.failed(new Error('the connection was closed'))
  expect(logged).toEqual([])
})

test('pauses grow with each failure in a row, and are short again after a success', () => {
  const { timers, counts, recovery } = recovering()
  const pauseAfterFailure = (): number | undefined => {
    recovery.failed(new Error('no'))
    expect(recovery.isPausing).toBe(true)
    timers.at(-1)?.fire()
    expect(recovery.isPausing).toBe(false)
    return timers.at(-1)?.delayMs
  }
  expect([pauseAfterFailure(), pauseAfterFailure(), pauseAfterFailure()]).toEqual([
    1_000, 1_500, 2_500,
  ])
  recovery.succeeded()
  expect([pauseAfterFailure(), counts.retries]).toEqual([1_000, 4])
  expect(recovery.outage).toEqual({ state: 'recovering', reason: 'Error: no' })
})

test('a store that is down pauses the consumer, and is tried again as often as the network', () => {
  const { timers, recovery } = recovering()
  recovery.failed(new StoreUnavailableError('gone'))
  expect(recovery.outage?.state).toBe('paused')
  expect(timers.map(({ delayMs }) => delayMs)).toEqual([100])
})

test('there is one pause at a time, and none after a stop', () => {
  const { timers, recovery } = recovering()
  recovery.pause(10)
  recovery.pause(20)
  expect(timers.map(({ delayMs }) => delayMs)).toEqual([10])
  recovery.stop()
  expect(timers.map(({ isCancelled }) => isCancelled)).toEqual([true])
  recovery.pause(30)
  expect([timers.length, recovery.isPausing, recovery.isStopped]).toEqual([1, false, true])
})

test('a stop outside a pause needs no timer', () => {
  const { timers, recovery } = recovering()
  recovery.stop()
  expect([timers, recovery.isStopped]).toEqual([[], true])
})

test('the outage of a store that is down is named by its error', () => {
  const { recovery } = recovering()
  recovery.storeIsDown(new Error('gone'))
  expect(recovery.outage).toEqual({ state: 'paused', reason: 'Error: gone' })
})

test('only an event that is abandoned because its guard closes tells that the guard is closed', () => {
  expect(isGuardClosed({ kind: 'abandon', reason: 'closing' })).toBe(true)
  expect(isGuardClosed({ kind: 'abandon', reason: 'deadline' })).toBe(false)
  expect(isGuardClosed({ kind: 'ack', by: 'processed' })).toBe(false)
})
