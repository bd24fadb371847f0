// @module-tag nightly

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCampaign } from '../campaign.ts'
import type { OpenFuzz } from '../fuzz.ts'
import type { History, RunFact } from './history.ts'
import { handlers } from './index.ts'
import { judge } from './judge.ts'
import { CLEAN, type Plan } from './plan.ts'
import { shrinkPlan } from './shrink.ts'

describe('a sample of drawn handlers', () => {
  let fuzz: OpenFuzz

  beforeAll(async () => {
    fuzz = await handlers.open()
  })
  afterAll(() => fuzz.close())

  it('keeps every promise', async () => {
    const { failures } = await runCampaign({ fuzz, seed: 1, forMs: 25_000, cases: 60 })
    expect(failures).toEqual([])
    expect(Object.keys(fuzz.tally())).toEqual(
      expect.arrayContaining(['driver pg', 'driver kysely', 'own pool', 'mode each', 'mode batch']),
    )
  })
})

const PLAN: Plan = {
  ...{ driver: 'pg', mode: 'each', leases: 'none', concurrency: 1, attempts: 2, workers: 1 },
  ...{ chunk: 4, isAtOnce: false, hasOwnPool: false },
  events: [
    { copies: 1, lane: 0, runs: [], isForEver: false },
    { copies: 1, lane: 0, runs: [{ steps: [], end: 'throws an error' }], isForEver: false },
  ],
}

const run = (fact: Partial<RunFact>): RunFact => ({
  ...{ event: 0, run: 1, call: 1, attempt: 1, failuresBefore: 0, isIntact: true },
  seen: { role: 'postgres', user: 'postgres', searchPath: '"$user", public', tenant: '', pid: 1 },
  ...{ parts: ['a'], late: [], isOver: true, end: 'done' as const, result: '1' },
  ...fact,
})
const failed = { doomed: 'it throws', end: 'failed' as const }
const retry = { kind: 'defer', reason: 'failed', cause: 'handler-failed', until: 0 } as never
const processed = { kind: 'ack', by: 'processed', result: 1 } as const
const duplicate = { kind: 'ack', by: 'duplicate', result: 1 } as const
const row = { id: 1, consumer: 'zoo', event: 0, run: 1, part: 'a' }
const done = { event: 0, state: 'd', reason: null, attempt: null, hasFailedRow: false }

/** One clean event, and one whose first run fails. */
const GOOD: History = {
  plan: PLAN,
  runs: [
    run({}),
    run({ event: 1, call: 2, ...failed }),
    run({ event: 1, run: 2, call: 3, attempt: 2, failuresBefore: 1 }),
  ],
  settled: [
    { event: 0, round: 1, settlement: processed },
    { event: 1, round: 1, settlement: retry },
    { event: 1, round: 2, settlement: processed },
  ],
  again: [
    { event: 0, round: 0, settlement: duplicate },
    { event: 1, round: 0, settlement: duplicate },
  ],
  rows: [row, { ...row, id: 2, event: 1, run: 2 }],
  states: [done, { ...done, event: 1 }],
  ...{ nested: [], left: [], surprises: [], unended: [] },
}

const [first, second, third] = GOOD.runs as [RunFact, RunFact, RunFact]
const dead = { kind: 'dead-letter', reason: 'attempts-spent' } as const
const storeDown = { kind: 'defer', reason: 'store-down', cause: 'store-error', until: 0 } as never

/** Histories that break a promise, by the rule that must see it. */
const DOCTORED: Readonly<Record<string, readonly Partial<History>[]>> = {
  surprises: [{ surprises: ['unhandled: Error'] }],
  'nothing is left': [{ left: ['1 connections are not back'] }],
  'every event ends': [{ unended: [1] }],
  'settlements are allowed': [
    { settled: [{ event: 0, round: 1, settlement: storeDown }, ...GOOD.settled] },
    { settled: [...GOOD.settled, { event: 0, round: 1, settlement: dead }] },
    {
      settled: [...GOOD.settled, { event: 0, round: 1, settlement: { ...dead, reason: 'fatal' } }],
    },
  ],
  'one processed': [{ settled: [...GOOD.settled, { event: 0, round: 2, settlement: processed }] }],
  'the effect is that of one run': [
    { rows: [row] },
    { rows: [row, row, { ...row, event: 1, run: 2 }] },
    { rows: [row, { ...row, event: 1, run: 1 }] },
    { rows: [row, { ...row, event: 1, run: 1 }, { ...row, event: 1, run: 2 }] },
    { rows: [row, { ...row, part: 'late' }, { ...row, event: 1, run: 2 }] },
  ],
  'the store knows': [
    { states: [{ ...done, state: 'w' }] },
    { states: [{ ...done, hasFailedRow: true }] },
    { states: [{ ...done, state: null }] },
  ],
  'a clean run commits': [
    { runs: [first, second, { ...second, run: 2, doomed: undefined }, third] },
  ],
  'attempts are counted': [
    { runs: [first, second, { ...third, attempt: 1 }] },
    { runs: [first, second, { ...third, attempt: 3 }] },
  ],
  'handlers begin clean': [
    { runs: [run({ isIntact: false }), second, third] },
    ...(['role', 'user', 'tenant', 'searchPath'] as const).map((name) => ({
      runs: [
        run({ seen: { ...(first.seen as never as object), [name]: 'x' } as never }),
        second,
        third,
      ],
    })),
  ],
  'neighbours are left alone': [
    {
      plan: {
        ...PLAN,
        events: [{ copies: 1, runs: [CLEAN].slice(1), isForEver: false }, ...PLAN.events.slice(1)],
      },
      settled: [
        { event: 0, round: 1, settlement: { ...(retry as object), cause: 'not-due' } as never },
        ...GOOD.settled.map((each) => ({ ...each, round: 2 })),
      ],
    },
  ],
  'a copy finds the outcome': [
    { again: [{ event: 0, round: 0, settlement: processed }] },
    { again: [{ event: 0, round: 0, settlement: { ...duplicate, result: 2 } }] },
  ],
  'nested effects': [{ nested: [1] }],
  'lanes keep their order': [
    {
      rows: [
        { ...row, id: 3 },
        { ...row, event: 1, run: 2 },
      ],
    },
  ],
}

describe('the judge of drawn handlers', () => {
  it('lets a good history pass', () => {
    expect(judge(GOOD)).toBeUndefined()
  })

  it.each(
    Object.entries(DOCTORED).flatMap(([rule, histories]) =>
      histories.map((history, index) => ({ rule, history, index })),
    ),
  )('sees that a promise is broken: $rule, $index', ({ rule, history }) => {
    expect(judge({ ...GOOD, ...history })).toMatch(new RegExp(`^${rule}: `))
  })
})

describe('shrinking', () => {
  it('leaves out of a case what the violation does not need', async () => {
    const steps = ['commit', 'vacuum'].map((step) => ({ step, isCaught: true, after: 0 }))
    const event = { copies: 2, lane: 1, runs: [{ steps, end: 'throws null' }], isForEver: true }
    const large: Plan = {
      ...PLAN,
      mode: 'batch',
      leases: 'memory',
      workers: 2,
      events: [event, event, event],
    }
    const violation = 'a rule: broken'
    const { plan } = await shrinkPlan(large, violation, async ({ events }) =>
      events.some(({ runs }) =>
        runs.some((each) => each.steps.some(({ step }) => step === 'vacuum')),
      )
        ? violation
        : undefined,
    )
    expect(plan).toMatchObject({ mode: 'each', leases: 'none', workers: 1 })
    expect(plan.events).toEqual([
      { copies: 1, runs: [{ steps: [steps[1]], end: 'nothing' }], isForEver: false },
    ])
  })
})
