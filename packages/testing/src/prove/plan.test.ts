import { expect, test } from 'vitest'
import { planProof } from './plan.ts'

test('the same seed makes the same plan, another one another', () => {
  const plan = planProof({ seed: 7, events: 100, kills: 14 })
  expect(planProof({ seed: 7, events: 100, kills: 14 })).toEqual(plan)
  expect(planProof({ seed: 8, events: 100, kills: 14 })).not.toEqual(plan)
})

test.each([
  [1, 0],
  [1, 1],
  [20, 3],
  [500, 50],
])('%i events with %i kills are all sent, some twice, and struck as often', (events, kills) => {
  const { batches, blows, sentTwice } = planProof({ seed: 3, events, kills })
  const sent = batches.flat()
  expect(new Set(sent).size).toBe(events)
  expect(sent.length).toBe(events + sentTwice.size)
  expect(sentTwice.size).toBeGreaterThan(0)
  expect([blows.length, batches.length]).toEqual([kills, kills + 1])
})

test('fifty kills are at every point, and three of them freeze', () => {
  const { blows } = planProof({ seed: 3, events: 500, kills: 50 })
  const times = Object.groupBy(blows, (point) => point)
  expect(Object.keys(times)).toHaveLength(7)
  expect(times.frozen).toHaveLength(3)
})
