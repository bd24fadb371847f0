// @module-tag nightly

import { skipped } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { BROKER_NAMES, BROKERS, DEFAULT_BROKER } from '../brokers/index.ts'
import { createDice } from '../support/dice.ts'
import { planRound } from './plan.ts'
import { failureOf, totalsOf } from './report.ts'
import { run } from './run.ts'

/** A round that hangs fails by itself long before this. */
const LONGEST_MS = 600_000

// Red when the claim ignores `on conflict`, and when the row is written after the business transaction.
describe('workers, Postgres, Redis and the broker killed at random', () => {
  for (const name of BROKER_NAMES) {
    test.skipIf(skipped(BROKERS[name].service) || skipped('redis'))(
      `${name}: nothing lost, nothing doubled, every balance right`,
      async () => {
        const { seed } = createDice()
        const results = await run(
          { brokers: [name], events: 300, rounds: 1, minutes: 0, seed, beside: undefined },
          () => undefined,
        )
        const failures = results.map(failureOf).join('\n')
        const wrong = { lost: 0, doubled: 0, wrongBalances: 0, wrongDeadLetters: 0, selfEnded: 0 }
        expect(totalsOf(seed, results), failures).toMatchObject({ events: 300, ...wrong })
        expect(totalsOf(seed, results).kills).toBeGreaterThan(0)
      },
      LONGEST_MS,
    )
  }
})

// The whole form is `npm run crash -- --beside COMMIT`.
test.skipIf(skipped('redis'))(
  'half of the workers run the code of an earlier commit: nothing lost, nothing doubled',
  { timeout: LONGEST_MS },
  async () => {
    const { seed } = createDice()
    const results = await run(
      { brokers: BROKER_NAMES, events: 300, rounds: 3, minutes: 0, seed, beside: 'HEAD~20' },
      () => undefined,
    )
    const totals = totalsOf(seed, results)
    const wrong = { lost: 0, doubled: 0, wrongBalances: 0, wrongDeadLetters: 0, selfEnded: 0 }
    expect(totals, results.map(failureOf).join('\n')).toMatchObject({ events: 900, ...wrong })
    expect(totals.deliveriesOfOlder).toBeGreaterThan(0)
    expect(totals.deliveriesOfOlder).toBeLessThan(totals.deliveries)
  },
)

test('a seed always plans the same round, and another seed another one', () => {
  const plan = planRound({ seed: 7, broker: DEFAULT_BROKER, events: 500 })
  expect(planRound({ seed: 7, broker: DEFAULT_BROKER, events: 500 })).toEqual(plan)
  expect(planRound({ seed: 8, broker: DEFAULT_BROKER, events: 500 }).blows).not.toEqual(plan.blows)
})

test('a worker dies in every round, however short', () => {
  const plans = Array.from({ length: 200 }, (_, seed) =>
    planRound({ seed, broker: DEFAULT_BROKER, events: 300 }),
  )
  expect(plans.filter(({ blows }) => !blows.workers.some(({ kind }) => kind === 'kill'))).toEqual(
    [],
  )
})
