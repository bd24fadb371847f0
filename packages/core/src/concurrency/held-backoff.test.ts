import { expect, test } from 'vitest'
import { createShift } from '../fixtures/shift.ts'
import type { EventId } from '../model/brands.ts'
import { createHeldBackoff } from './backoff.ts'

test('the delay doubles from one second to thirty, with jitter, and is never below a second', () => {
  const highest = createHeldBackoff(createShift(() => 1).runtime)
  const lowest = createHeldBackoff(createShift(() => 0).runtime)
  const id = 'event' as EventId
  expect(Array.from({ length: 7 }, () => highest.nextMs(id) / 1_000)).toEqual([
    1, 2, 4, 8, 16, 30, 30,
  ])
  expect(Array.from({ length: 7 }, () => lowest.nextMs(id))).toEqual(Array(7).fill(1_000))
  highest.forget(id)
  expect(highest.nextMs(id)).toBe(1_000)
})

test('ten thousand events are remembered, and the least recently used one is dropped', () => {
  const deferrals = createHeldBackoff(createShift(() => 1).runtime)
  const [oldest, again] = ['oldest', 'again'] as EventId[] as [EventId, EventId]
  deferrals.nextMs(again)
  deferrals.nextMs(oldest)
  for (let n = 2; n < 10_000; n += 1) deferrals.nextMs(`event-${n}` as EventId)
  expect(deferrals.nextMs(again)).toBe(2_000)
  deferrals.nextMs('one too many' as EventId)
  expect(deferrals.nextMs(again)).toBe(4_000)
  expect(deferrals.nextMs('event-2' as EventId)).toBe(2_000)
  expect(deferrals.nextMs(oldest)).toBe(1_000)
})
