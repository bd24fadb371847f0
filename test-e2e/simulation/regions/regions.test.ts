import { expect, test } from 'vitest'
import { createDice, seedOfCommit } from '../../support/dice.ts'
import {
  HORIZON_MS,
  type RegionsPlan,
  type RegionsResult,
  ROLLOUT_MS,
  runRegions,
} from './regions.ts'

/** Of each kind: half a second. */
const SCHEDULES = 25
/** New schedules for what must never happen. What must happen once is looked for in the same schedules every time. */
const FIRST_SEED = createDice(seedOfCommit()).seed

async function play(
  plan: Omit<RegionsPlan, 'seed'>,
  firstSeed = 1,
): Promise<readonly RegionsResult[]> {
  const results: RegionsResult[] = []
  for (let n = 0; n < SCHEDULES; n += 1) {
    results.push(await runRegions({ ...plan, seed: firstSeed + n }))
  }
  return results
}

const doubled = ({ effects }: RegionsResult) =>
  [...effects].filter(([, happened]) => happened.length > 1)

test.each(['cut', 'drained'] as const)(
  'one Postgres for both regions: a home that is %s doubles nothing',
  async (failover) => {
    const results = await play({ authority: 'postgres', failover }, FIRST_SEED)
    expect(results.flatMap(doubled)).toEqual([])
    for (const { effects } of results) expect(effects.size).toBe(24)
    // Keys did move, and some of their events came again.
    expect(results.some(({ moved }) => moved.size > 0)).toBe(true)
  },
)

test('two Redis and no Postgres: a home that is cut off doubles events of keys that moved, until their last copy', async () => {
  const results = await play({ authority: 'none', failover: 'cut' })
  expect(results.flatMap(doubled).length).toBeGreaterThan(0)
  expect(results.some(({ overlaps }) => overlaps > 0)).toBe(true)
  for (const result of results) {
    for (const [key, [first, second]] of doubled(result)) {
      expect(result.moved).toContain(key)
      expect([first?.at, second?.at].sort()).toEqual(['eu', 'us'])
      expect(second?.atMs).toBeGreaterThan(result.changedAtMs)
      expect(second?.atMs).toBeLessThan((first?.atMs ?? 0) + HORIZON_MS + ROLLOUT_MS)
    }
  }
})

test('two Redis and no Postgres: a drain ends the overlap, and the copies of done events still double', async () => {
  const results = await play({ authority: 'none', failover: 'drained' })
  expect(results.map(({ overlaps }) => overlaps)).toEqual(results.map(() => 0))
  expect(results.flatMap(doubled).length).toBeGreaterThan(0)
})
