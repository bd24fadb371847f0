import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { EventId } from '../model/brands.ts'
import { createRecentIds } from './recent-ids.ts'

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
