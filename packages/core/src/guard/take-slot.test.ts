import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ALONE_WAIT_MS, createAloneLock } from '../concurrency/alone-lock.ts'
import { createSemaphore } from '../concurrency/semaphore.ts'
import { stopSignals } from '../concurrency/stop-signals.ts'
import { Clock } from '../fixtures/clock.ts'
import type { Release } from '../model/runtime.ts'
import { type Place, takePlace, takeSlot } from './take-slot.ts'

const closing = { kind: 'abandoned', reason: 'closing' }
const noSlot = { kind: 'in-progress', delayMs: 1_000, cause: 'no-free-slot' }

/** One slot, and the lock that runs share with events that run alone. */
function setUp() {
  const clock = new Clock()
  const alone = createAloneLock()
  const slots = createSemaphore(1)
  const stop = new AbortController()
  const signals = stopSignals([stop.signal])
  return {
    clock,
    alone,
    slots,
    stop,
    request: { slots, runtime: { ...clock.runtime, alone }, signals },
  }
}

test('a place is a slot and a share of the lock, and leaving gives both back', async () => {
  const { alone, request, slots } = setUp()
  const place = (await takePlace(request)) as Place
  expect(slots.tryAcquire()).toBeUndefined()
  const exclusive = alone.exclusive()
  place.leave()
  expect(await exclusive).toBeTypeOf('function')
  expect(slots.tryAcquire()).toBeTypeOf('function')
})

test('a stop ends the wait for a slot, outside of a handler the only thing that does', async () => {
  const { clock, request, slots, stop } = setUp()
  slots.tryAcquire()
  const waiting = takeSlot(request)
  clock.advance(60_000)
  expect(clock.timers).toBe(0)
  stop.abort()
  expect(await waiting).toEqual(closing)
})

test('a stop ends the wait for an event that runs alone, and the slot is free again', async () => {
  const { alone, request, slots, stop } = setUp()
  await alone.exclusive()
  const waiting = takePlace(request)
  await turn()
  stop.abort()
  expect(await waiting).toEqual(closing)
  expect(slots.tryAcquire()).toBeTypeOf('function')
})

test('no run begins after a stop, although there is a free place', async () => {
  const { alone, request, slots, stop } = setUp()
  stop.abort()
  expect(await takePlace(request)).toEqual(closing)
  expect(slots.tryAcquire()).toBeTypeOf('function')
  expect(await alone.exclusive()).toBeTypeOf('function')
})

// The handlers that hold the slots may wait for the runs that they start.
test('inside a handler the wait for a slot is bounded', async () => {
  const { alone, clock, request, slots } = setUp()
  slots.tryAcquire()
  const hold = alone.tryShared() as Release
  const waiting = alone.runInside(hold, () => takeSlot(request))
  clock.advance(ALONE_WAIT_MS)
  expect(await waiting).toEqual(noSlot)
})
