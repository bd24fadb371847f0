import { expect, test } from 'vitest'
import { chunks, toLanes } from './lanes.ts'

test('groups by lane in order; items without a lane stand alone', () => {
  const items = ['a1', 'x', 'b1', 'a2', 'y', 'b2']
  const laneOf = (item: string) => (item.length === 2 ? item.slice(0, 1) : undefined)
  expect(toLanes(items, laneOf)).toEqual([['a1', 'a2'], ['x'], ['b1', 'b2'], ['y']])
})

test('cuts into slices that keep the order and lose nothing', () => {
  expect(chunks([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]])
  expect(chunks([], 2)).toEqual([])
})
