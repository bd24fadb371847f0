import { expect, test } from 'vitest'
import type { EventId } from '../model/brands.ts'
import { createRecentIds } from './recent-ids.ts'

test('the ids that were added last are known, and no others', () => {
  const recent = createRecentIds(2)
  for (const id of ['a', 'b', 'b', 'c']) recent.add(id as EventId)
  expect(['a', 'b', 'c', 'd'].map((id) => recent.has(id as EventId))).toEqual([
    ...[false, true, true, false],
  ])
})
