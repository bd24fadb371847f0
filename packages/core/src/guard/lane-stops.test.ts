import { expect, test } from 'vitest'
import type { Outcome } from '../settlement/outcome.ts'
import { LaneStops } from './lane-stops.ts'
import type { Received } from './receive.ts'

const at = (index: number, lane: string | undefined): Received =>
  ({ index, member: { lane } }) as Received
const stopped = (delayMs: number): Outcome => ({ kind: 'not-due', delayMs, cause: 'not-due' })

// The copy of an event has its outcome before events that came earlier in the lane have theirs.
test.each([
  [5, 2],
  [2, 5],
])('a lane waits from the earliest of its places, in whatever order they are known', (...order) => {
  const stops = new LaneStops()
  for (const index of order) stops.note('lane', { index, outcome: stopped(index) })
  expect(stops.followerOutcome(at(1, 'lane'))).toBeUndefined()
  for (const index of [2, 3, 6]) {
    const outcome = stops.followerOutcome(at(index, 'lane'))
    expect(outcome).toMatchObject({ delayMs: 2, cause: 'lane-waits' })
  }
  expect(stops.followerOutcome(at(6, 'other'))).toBeUndefined()
  expect(stops.followerOutcome(at(6, undefined))).toBeUndefined()
})
