import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import type { EventId } from '../model/brands.ts'
import { createInFlight } from './in-flight.ts'

const id = 'event' as EventId
const other = 'other' as EventId

function setUp() {
  const clock = new Clock()
  return { clock, flights: createInFlight(clock.runtime) }
}

test('an event is in flight from its start to its end', () => {
  const { flights } = setUp()
  expect(flights.has(id)).toBe(false)
  const land = flights.start(id)
  expect([flights.has(id), flights.has(other)]).toEqual([true, false])
  land()
  expect(flights.has(id)).toBe(false)
})

test('the wait for an event that is not in flight ends at once', async () => {
  const { clock, flights } = setUp()
  expect(await flights.waitFor(id, 250)).toBe(true)
  expect(clock.timers).toBe(0)
})

test('all waiters are told as soon as the event ends, and no timer is left', async () => {
  const { clock, flights } = setUp()
  const land = flights.start(id)
  const waiting = [flights.waitFor(id, 250), flights.waitFor(id, 250)]
  land()
  expect(await Promise.all(waiting)).toEqual([true, true])
  expect(clock.timers).toBe(0)
})

test('a waiter that reaches its limit is told that the event is still in flight', async () => {
  const { clock, flights } = setUp()
  const land = flights.start(id)
  const waiting = flights.waitFor(id, 250)
  clock.advance(250)
  expect(await waiting).toBe(false)
  land()
})

// Two waiters of one run both start. The end of the first must not remove the second.
test('the end of an earlier run does not end a later run', async () => {
  const { clock, flights } = setUp()
  const first = flights.start(id)
  const second = flights.start(id)
  first()
  expect(flights.has(id)).toBe(true)
  const waiting = flights.waitFor(id, 250)
  first()
  clock.advance(250)
  expect(await waiting).toBe(false)
  second()
  expect(flights.has(id)).toBe(false)
})
