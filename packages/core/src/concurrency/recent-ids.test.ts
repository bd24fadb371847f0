import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { EventId } from '../model/brands.ts'
import { createRecentIds } from './recent-ids.ts'

const newIds = (count: number): readonly EventId[] =>
  Array.from({ length: count }, () => randomUUID() as string as EventId)

test('the id that was added last is known, and never more ids than there are places', () => {
  const ids = fc.array(fc.oneof(fc.uuid(), fc.string()).map((id) => id as EventId))
  fc.assert(
    fc.property(ids, fc.integer({ min: 2, max: 9 }), (added, places) => {
      const recent = createRecentIds(places)
      for (const id of added) {
        recent.add(id)
        expect(recent.has(id)).toBe(true)
      }
      const known = new Set(added.filter((id) => recent.has(id)))
      expect(known.size).toBeLessThanOrEqual(places)
    }),
  )
})

test('an id that was not added is never known, although all places are taken', () => {
  const recent = createRecentIds(100)
  for (const id of newIds(10_000)) recent.add(id)
  expect(newIds(10_000).filter((id) => recent.has(id))).toEqual([])
})

test('nearly all of the ids that were added last are known', () => {
  const recent = createRecentIds()
  for (const id of newIds(50_000)) recent.add(id)
  const last = newIds(10_000)
  for (const id of last) recent.add(id)
  const known = (ids: readonly EventId[]): number => ids.filter((id) => recent.has(id)).length
  expect(known(last)).toBeGreaterThan(9_000)
  expect(known(last.slice(-1_000))).toBeGreaterThan(990)
})

test('an id that is added again takes no second place', () => {
  const recent = createRecentIds(2)
  const [first, second] = newIds(2) as [EventId, EventId]
  recent.add(first)
  for (let time = 0; time < 3; time++) recent.add(second)
  expect([recent.has(first), recent.has(second)]).toEqual([true, true])
})
