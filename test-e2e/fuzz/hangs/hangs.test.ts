// @module-tag nightly

import { skipped } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { BROKER_NAMES, BROKERS, DEFAULT_BROKER } from '../../brokers/index.ts'
import { createDice } from '../../support/dice.ts'
import { openHangs } from './hangs.ts'
import { type History, judge } from './judge.ts'
import { isExcused } from './links.ts'
import { DEPENDENCIES, drawPlans, type Fixed, type Plan } from './plan.ts'
import { shrink } from './shrink.ts'

/** Little work, so that a plan takes hardly longer than what is hung takes to be noticed: half a minute in all. */
const SHORT = { forMs: 2_000, load: 20, takesMs: 20 } as const

/** Each adapter and each dependency at least once; the seed draws the rest. */
const SAMPLE: readonly Fixed[] = [
  ...BROKER_NAMES.map((adapter): Fixed => ({ adapter, dependency: 'broker', ...SHORT })),
  ...(['publish', 'postgres', 'redis'] as const).map((dependency, index): Fixed => {
    const adapter = BROKER_NAMES[index % BROKER_NAMES.length] ?? DEFAULT_BROKER
    return { adapter, dependency, ...SHORT }
  }),
]

const services = BROKER_NAMES.map((name) => BROKERS[name].service)
const isSkipped = [...services, 'postgres' as const, 'redis' as const].some(skipped)

describe('a dependency that hangs', () => {
  // Seconds on a quiet machine: only what is broken is waited for longer.
  test.skipIf(isSkipped)(
    'stalls nothing else, is named by health(), loses and doubles nothing, and is recovered from',
    async () => {
      const { seed } = createDice()
      const fuzz = await openHangs(SAMPLE)
      try {
        expect(await fuzz.play(seed)).toBeUndefined()
      } finally {
        await fuzz.close()
      }
    },
    400_000,
  )

  test('a seed is the same plans, and seeds together leave nothing out', () => {
    const drawn = Array.from({ length: 200 }, (_, seed) => drawPlans(seed, [{}, {}])).flat()
    expect(drawPlans(7, [{}, {}])).toEqual(drawPlans(7, [{}, {}]))
    expect(new Set(drawn.map(({ dependency }) => dependency))).toEqual(new Set(DEPENDENCIES))
    const hung = new Set(
      drawn.map(({ connections, arrivals, direction }) =>
        [connections, arrivals, direction].join(),
      ),
    )
    expect(hung.size).toBe(2 * 3 * 3)
    expect(drawn.filter(({ isWrapped }) => isWrapped).length).toBeGreaterThan(0)
  })
})

const PLAN: Plan = {
  ...{ adapter: DEFAULT_BROKER, isWrapped: false, transaction: 'each', hasLeases: false },
  ...{ dependency: 'postgres', direction: 'both', connections: 'all', arrivals: 'silent' },
  ...{ forMs: 2_000, ending: 'cut', drains: true, load: 5, flaky: 1, fatal: 1, takesMs: 20 },
}

/** A history that breaks nothing. */
const GOOD: History = {
  plan: PLAN,
  sent: [
    { id: 'good', side: 'neighbour', kind: 'good' },
    { id: 'flaky', side: 'subject', kind: 'flaky' },
    { id: 'fatal', side: 'subject', kind: 'fatal' },
  ],
  effects: new Map([
    ['good', 1],
    ['flaky', 1],
  ]),
  letters: new Set(['fatal']),
  stalled: [],
  named: new Map([['inbox', 'late']]),
  neighbour: [],
  unrecovered: [],
  drainsMs: [5_000],
  closesMs: [5_000],
  connections: { calm: 6, peak: 7 },
  leftOpen: [],
}

const DOCTORED: readonly (readonly [string, Partial<History>, RegExp])[] = [
  ['a lost event', { effects: new Map([['good', 1]]) }, /flaky of the subject was lost/],
  ['a lost dead letter', { letters: new Set() }, /fatal was lost/],
  [
    'a doubled effect',
    { effects: new Map([...GOOD.effects, ['good', 2]]) },
    /good was doubled: it has 2/,
  ],
  [
    'an effect of a dead letter',
    { effects: new Map([...GOOD.effects, ['fatal', 1]]) },
    /fatal has an effect/,
  ],
  [
    'a dead letter of an innocent event',
    { letters: new Set(['fatal', 'good']) },
    /good was dead-lettered/,
  ],
  ['a stalled neighbour', { stalled: ['good'] }, /good is healthy and did not pass/],
  ['a hang that nobody names', { named: new Map() }, /did not name 'inbox'.*nothing/],
  [
    'a wrong name',
    { named: new Map([...GOOD.named, ['dead-letters', 'full']]) },
    /'dead-letters'.*full/,
  ],
  ['a neighbour that takes part', { neighbour: ['inbox'] }, /the neighbour named 'inbox'/],
  ['a consumer that does not come back', { unrecovered: ['good'] }, /not recovered/],
  ['a drain that hangs', { drainsMs: [500_000] }, /a drain took 500000 ms/],
  ['a close that hangs', { closesMs: [500_000] }, /close\(\) of the guard took 500000 ms/],
  ['a connection for each attempt', { connections: { calm: 6, peak: 60 } }, /made 60 connections/],
  ['a connection that stays', { leftOpen: ['postgres 1'] }, /stayed open: postgres 1/],
]

describe('the judge of hangs', () => {
  test('finds nothing in a good history', () => {
    expect(judge(GOOD)).toEqual([])
  })

  test.each(DOCTORED)('sees %s', (_, change, message) => {
    expect(judge({ ...GOOD, ...change })).toEqual([expect.stringMatching(message)])
  })

  test("demands no name where a connection still works, or where the receives are the user's", () => {
    const unnamed = { named: new Map<string, string>() }
    const plans: readonly Plan[] = [
      { ...PLAN, connections: 'one' },
      { ...PLAN, arrivals: 'work' },
      { ...PLAN, dependency: 'broker', isWrapped: true },
    ]
    for (const plan of plans) expect(judge({ ...GOOD, ...unnamed, plan })).toEqual([])
    for (const adapter of BROKER_NAMES) {
      const plan: Plan = { ...PLAN, adapter, isWrapped: true }
      expect(judge({ ...GOOD, ...unnamed, plan })).toHaveLength(1)
    }
  })

  test('excuses a connection of a client that was called after its end, and no other', () => {
    for (const adapter of BROKER_NAMES) {
      const { consume, publish } = BROKERS[adapter].traits.closedClients
      const [calm, drained] = [false, true].map((drains): Plan => ({ ...PLAN, adapter, drains }))
      for (const link of ['postgres', 'redis', 'broker'])
        expect(isExcused(calm ?? PLAN, link)).toBe(false)
      expect(isExcused(drained ?? PLAN, 'broker')).toBe(consume === 'connect again')
      expect(isExcused(calm ?? PLAN, 'publish')).toBe(publish === 'connect again')
    }
  })

  test('shrinks a plan to what it needs to break', async () => {
    const needed = (plan: Plan): boolean => plan.drains && plan.direction === 'both'
    const smallest = await shrink(PLAN, async (plan) => needed(plan))
    expect(smallest).toEqual({
      ...{ ...PLAN, flaky: 0, takesMs: 0 },
      ...{ transaction: 'each', ending: 'release', drains: true },
    })
  })
})
