import fc from 'fast-check'
import { afterEach, expect, test, vi } from 'vitest'
import type { EventId } from '../model/brands.ts'
import { createRecentIds } from './recent-ids.ts'

afterEach(() => vi.restoreAllMocks())

test('the ids that were added last are known, and at most twice as many as wanted', () => {
  const ids = fc.array(fc.integer({ min: 0, max: 30 }).map((id) => String(id) as EventId))
  fc.assert(
    fc.property(ids, fc.integer({ min: 1, max: 5 }), (added, remembered) => {
      const recent = createRecentIds(remembered)
      for (const id of added) recent.add(id)
      const known = [...new Set(added)].filter((id) => recent.has(id))
      const last = new Set(added.toReversed().slice(0, remembered))
      expect(known).toEqual(expect.arrayContaining([...last]))
      expect(known.length).toBeLessThanOrEqual(2 * remembered)
      expect(recent.has('never' as EventId)).toBe(false)
    }),
  )
})

// Red when the oldest id is deleted from one set: its first entry is then found behind all that were deleted before.
test('adding an id takes the same few steps however many were added before', () => {
  const methods = ['add', 'delete', 'clear', 'forEach', 'keys', 'values', 'entries'] as const
  const steps = [...methods, Symbol.iterator].map((name) => vi.spyOn(Set.prototype, name as 'add'))
  const recent = createRecentIds(100)
  for (let id = 0; id < 1_000; id += 1) recent.add(`${id}` as EventId)
  const [adds, ...others] = steps.map(({ mock }) => mock.calls.length)
  expect(adds).toBe(1_000)
  expect(others).toEqual(others.map(() => 0))
})
