import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import { RunningLanes } from './running-lanes.ts'

const each = (id: number, orderingKey?: string) => ({
  id,
  delivery: toDelivery(id, { orderingKey }),
})
type Each = ReturnType<typeof each>

const most = { groups: 10, deliveries: 10 }
const ids = (groups: readonly (readonly Each[])[]) =>
  groups.map((group) => group.map(({ id }) => id))

test('a lane has one call at a time, and other lanes run meanwhile', () => {
  const lanes = new RunningLanes<Each>({ lanesAreUsers: false })
  const pending = [each(0, 'a'), each(1), each(2, 'a'), each(3)]
  const [first, , second] = pending
  expect(ids(lanes.findStartable(pending, most).groups)).toEqual([[0, 2], [1], [3]])
  for (const one of [first, second]) if (one !== undefined) lanes.started(one)
  const later = [each(4, 'a'), each(5, 'b')]
  const found = lanes.findStartable(later, most)
  expect([ids(found.groups), ids([found.blocked]), found.considered]).toEqual([[[5]], [[4]], 2])
  expect(lanes.blocked).toBe(1)
  if (first !== undefined) lanes.ended(first)
  expect(lanes.findStartable(later, most).blocked).toHaveLength(1)
  if (second !== undefined) lanes.ended(second)
  expect(ids(lanes.findStartable(later, most).groups)).toEqual([[4], [5]])
})

test('no more start than the limits say', () => {
  const lanes = new RunningLanes<Each>({ lanesAreUsers: false })
  const pending = [each(0, 'a'), each(1, 'a'), each(2, 'b'), each(3, 'a')]
  expect(ids(lanes.findStartable(pending, { groups: 1, deliveries: 10 }).groups)).toEqual([[0, 1]])
  expect(ids(lanes.findStartable(pending, { groups: 9, deliveries: 3 }).groups)).toEqual([
    ...[[0, 1], [2]],
  ])
})

test('if only the guard knows the lanes, one call at a time runs', () => {
  const lanes = new RunningLanes<Each>({ lanesAreUsers: true })
  const pending = [each(0), each(1, 'a')]
  expect(ids(lanes.findStartable(pending, most).groups)).toEqual([[0, 1]])
  lanes.started(each(0))
  expect(lanes.findStartable([each(2)], most).groups).toEqual([])
})
