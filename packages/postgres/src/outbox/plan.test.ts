import { expect, test } from 'vitest'
import { Plan, type Planned } from './plan.ts'

const planned = (position: number, bucket = 0, lane?: string): Planned => ({
  ...{ position: String(position), bucket, lane },
})
const none: ReadonlySet<string> = new Set()
const FRESH = { nowMs: 0, tookMs: 1 }

test('messages leave in the order of their positions, and none beside an earlier one of its key', () => {
  const plan = new Plan([0], [planned(10, 0, 'a'), planned(9, 0, 'a'), planned(2, 0, 'b')], FRESH)
  expect(plan.next(9, none)).toEqual(['2', '9', '10'])
  expect(plan.next(9, new Set(['9']))).toEqual(['2'])
  plan.remove('9')
  expect(plan.next(1, new Set(['2']))).toEqual(['10'])
})

test('a message that waits takes those of its key out of the plan', () => {
  const plan = new Plan(
    [0],
    [planned(1, 0, 'a'), planned(2, 0, 'a'), planned(3), planned(4)],
    FRESH,
  )
  plan.hold('1')
  plan.hold('3')
  expect(plan.next(9, none)).toEqual(['4'])
})

test('a bucket that was given away is not in the plan when it comes back', () => {
  const plan = new Plan([0, 1], [planned(1, 0), planned(2, 1)], FRESH)
  expect(plan.keep([0, 1], 1)).toBe(true)
  expect(plan.keep([0], 1)).toBe(true)
  expect(plan.next(9, none)).toEqual(['1'])
  expect(plan.keep([0, 1], 1)).toBe(false)
})

test('a plan is made again after a second, or after ten times the time that it took', () => {
  const cheap = new Plan([0], [planned(1)], { nowMs: 0, tookMs: 1 })
  expect([cheap.keep([0], 999), cheap.keep([0], 1_000)]).toEqual([true, false])
  const dear = new Plan([0], [planned(1)], { nowMs: 0, tookMs: 400 })
  expect([dear.keep([0], 3_999), dear.keep([0], 4_000)]).toEqual([true, false])
})
