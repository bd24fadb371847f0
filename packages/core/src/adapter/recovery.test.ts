import { expect, test } from 'vitest'
import { ConfigurationError, StoreUnavailableError } from '../model/errors.ts'
import type { Availability } from '../model/guard-port.ts'
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
  const runtime = { setTimer, random: () => 0.5, now: () => 0 } as Runtime
  const counts = { retries: 0 }
  const ends: unknown[] = []
  const world = {
    availability: { kind: 'available' } as Availability,
    check: async (): Promise<void> => undefined,
  }
  const recovery = new Recovery<'denied'>({
    port: {
      ...{ logger, runtime, availability: () => world.availability },
      onPaused: () => () => undefined,
    },
    fields: { queue: 'orders' },
    classifyError: (error) => ({ kind: 'denied', text: String(error) }),
    backoff: { denied: { baseMs: 1_000, maxMs: 8_000 }, network: { baseMs: 100, maxMs: 200 } },
    onRetry: () => {
      counts.retries += 1
    },
    check: () => world.check(),
    onEnd: (end) => void ends.push(end),
  })
  return { logged, timers, counts, ends, world, recovery }
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
    [
      'the consumer receives nothing now and tries again by itself',
      { queue: 'orders', ...refused },
    ],
    ['the consumer receives nothing now and tries again by itself', { queue: 'orders', ...again }],
    ['the consumer receives nothing now and tries again by itself', { queue: 'orders', ...down }],
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

test('the outage of a store that is down is named by its error, and ends when the store is back', () => {
  const { recovery, timers, world } = recovering()
  world.availability = { kind: 'down', retryAt: 2_500 as never, error: new Error('gone') }
  expect(recovery.look()).toBe('shut')
  expect(recovery.outage).toEqual({ state: 'paused', reason: 'Error: gone' })
  // Its availability may change before it is tried again.
  expect(timers.map(({ delayMs }) => delayMs)).toEqual([1_000])
  world.availability = { kind: 'available' }
  expect([recovery.look(), recovery.outage]).toEqual(['open', undefined])
})

test('nothing is received before the check has succeeded, and its failures are retried after a pause', async () => {
  const { recovery, counts, timers, world } = recovering()
  let checks = 0
  world.check = async () => {
    checks += 1
    if (checks === 1) throw new Error('no')
  }
  await recovery.start()
  expect([recovery.mayReceive(), recovery.outage?.state, counts.retries]).toEqual([
    ...[false, 'recovering', 1],
  ])
  timers.at(-1)?.fire()
  expect([recovery.mayReceive(), recovery.mayReceive(), checks]).toEqual([false, false, 2])
  await Promise.resolve()
  await Promise.resolve()
  await Promise.resolve()
  expect([recovery.mayReceive(), recovery.outage, counts.retries, checks]).toEqual([
    ...[true, undefined, 3, 2],
  ])
})

test('a check that can never succeed ends the consumer: by the start first, and then by onEnd', async () => {
  const { recovery, ends, timers, world } = recovering()
  const error = new ConfigurationError('no such queue')
  world.check = () => Promise.reject(error)
  await expect(recovery.start()).rejects.toBe(error)
  expect([ends, timers]).toEqual([[], []])
  recovery.mayReceive()
  await new Promise((resolve) => void setImmediate(resolve))
  expect(ends).toEqual([{ kind: 'fatal', error }])
})

test('a guard that was closed ends the consumer, but not one that was stopped', () => {
  const { recovery, ends } = recovering()
  recovery.known({ kind: 'abandon', reason: 'closing' })
  recovery.stop()
  recovery.known({ kind: 'abandon', reason: 'closing' })
  expect(ends).toEqual([{ kind: 'closed' }])
})

test('only an event that is abandoned because its guard closes tells that the guard is closed', () => {
  expect(isGuardClosed({ kind: 'abandon', reason: 'closing' })).toBe(true)
  expect(isGuardClosed({ kind: 'abandon', reason: 'deadline' })).toBe(false)
  expect(isGuardClosed({ kind: 'ack', by: 'processed' })).toBe(false)
})
