import { expect, test } from 'vitest'
import { chunks, toLanes } from './lanes.ts'

test('items are grouped by lane in order; items without a lane get their own lane', () => {
  const items = ['a1', 'x', 'b1', 'a2', 'y', 'b2']
  const laneOf = (item: string) => (item.length === 2 ? item.slice(0, 1) : undefined)
  expect(toLanes(items, laneOf)).toEqual([['a1', 'a2'], ['x'], ['b1', 'b2'], ['y']])
})

test('batches keep the order and all items', () => {
  expect(chunks([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]])
  expect(chunks([], 2)).toEqual([])
})
