import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ALONE_WAIT_MS, createAloneLock } from '../../concurrency/alone-lock.ts'
import { createSemaphore } from '../../concurrency/semaphore.ts'
import { stopSignals } from '../../concurrency/stop-signals.ts'
import { Clock } from '../../fixtures/clock.ts'
import type { Release } from '../../model/runtime.ts'
import { type RunPermit, takePermit, takeSlot } from '../../run/permit.ts'
import type { Processing } from '../../run/processing.ts'

const closing = { kind: 'abandoned', reason: 'closing' }
const noSlot = { kind: 'in-progress', delayMs: 1_000, cause: 'no-free-slot' }

/** One slot, and the lock that runs share with events that run alone. */
function setUp() {
  const clock = new Clock()
  const alone = createAloneLock()
  const slots = createSemaphore(1)
  const stop = new AbortController()
  const signals = stopSignals([stop.signal])
  const runtime = { ...clock.runtime, alone }
  const request = { slots, runtime, signals }
  const processing = { options: { runtime }, stores: { slots }, signals } as unknown as Processing
  return { clock, alone, slots, stop, request, processing }
}

test('a permit is a slot and a share of the lock, and releasing it gives both back', async () => {
  const { alone, processing, slots } = setUp()
  const permit = (await takePermit(processing)) as RunPermit
  expect(slots.tryAcquire()).toBeUndefined()
  const exclusive = alone.exclusive()
  permit.release()
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
  const { alone, processing, slots, stop } = setUp()
  await alone.exclusive()
  const waiting = takePermit(processing)
  await turn()
  stop.abort()
  expect(await waiting).toEqual(closing)
  expect(slots.tryAcquire()).toBeTypeOf('function')
})

test('no run begins after a stop, although a permit is free', async () => {
  const { alone, processing, slots, stop } = setUp()
  stop.abort()
  expect(await takePermit(processing)).toEqual(closing)
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
