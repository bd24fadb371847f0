import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCampaign } from '../campaign.ts'
import type { OpenFuzz } from '../fuzz.ts'
import type { StoredState } from '../handlers/history.ts'
import type { RunPlan } from '../handlers/plan.ts'
import { drawKills } from './draw.ts'
import type { KillHistory, PlayedRun, ProcessFact } from './history.ts'
import { kills } from './index.ts'
import { judgeKills } from './judge.ts'
import type { KillPlan } from './plan.ts'

describe('a sample of handlers that kill their process', () => {
  let fuzz: OpenFuzz

  beforeAll(async () => {
    fuzz = await kills.open()
  })
  afterAll(() => fuzz.close())

  it('keeps every promise', async () => {
    const { failures } = await runCampaign({ fuzz, seed: 1, forMs: 8_000, cases: 12 })
    expect(failures).toEqual([])
    expect(fuzz.tally()['deaths']).toBeGreaterThan(0)
  })
})

describe('the cases', () => {
  it('kill their process in every way and at every place', () => {
    const plans = Array.from({ length: 2_000 }, (_, seed) => drawKills(seed))
    const steps = plans.flatMap(({ events }) =>
      events.flatMap(({ runs }) => runs.flatMap((run) => run.steps)),
    )
    const names = new Set(steps.map(({ step }) => step))
    expect([...names]).toEqual(
      expect.arrayContaining([
        ...['dies: exit 0', 'dies: exit 3', 'dies: SIGKILL', 'dies: SIGTERM', 'dies: abort'],
        ...['dies: out of memory', 'dies: a timer throws', 'dies: a listener throws'],
        ...['dies: a rejection is not handled', 'dies: a callback of a query throws'],
        ...['goes on while a rejection is not handled', 'dies beside a nested run: SIGKILL'],
        'dies in a nested run over the other consumer: exit 1',
        ...['dies when it is settled: SIGKILL', 'dies 4 ms later: SIGKILL'],
        'dies in the next turn: a rejection is not handled',
      ]),
    )
    const places = steps.filter(({ step }) => step === 'dies: SIGKILL').map(({ after }) => after)
    expect(new Set(places)).toEqual(new Set([0, 1, 2]))
  })
})

const kill: RunPlan = {
  steps: [{ step: 'dies: SIGKILL', isCaught: false, after: 1 }],
  end: 'nothing',
}

/** A clean event, one that kills its process once, and one that always does. */
const PLAN: KillPlan = {
  ...{ driver: 'pg', mode: 'each', leases: 'none', concurrency: 1, attempts: 2, workers: 1 },
  ...{ chunk: 8, isAtOnce: false, hasOwnPool: false, isFirstSuspect: false, isPrompt: false },
  events: [
    { copies: 1, lane: 0, runs: [], isForEver: false },
    { copies: 1, lane: 0, runs: [kill], isForEver: false },
    { copies: 1, runs: [kill], isForEver: true },
  ],
}

const run = (fact: Partial<PlayedRun>): PlayedRun => ({
  ...{ event: 0, run: 1, call: 1, attempt: 1, failuresBefore: 0, isIntact: true },
  seen: { role: 'postgres', user: 'postgres', searchPath: '"$user", public', tenant: '', pid: 1 },
  ...{ parts: ['a'], late: [], isOver: true, end: 'done' as const, result: '1' },
  ...{ process: 0, beganAt: 1, overAt: 2, isRedelivered: true },
  ...fact,
})
const died = { isOver: false, overAt: undefined, end: undefined, doomed: 'its process died' }

const processed = { kind: 'ack', by: 'processed', result: 1 } as const
const duplicate = { kind: 'ack', by: 'duplicate', result: 1 } as const
const dead = { kind: 'dead-letter', reason: 'attempts-spent' } as const

const nothing: Omit<StoredState, 'event'> = {
  ...{ state: null, reason: null, attempt: null, hasFailedRow: false },
}
const done: Omit<StoredState, 'event'> = { ...nothing, state: 'd' }
const running = (attempt: number): Omit<StoredState, 'event'> => ({
  ...{ state: 'r', reason: null, attempt, hasFailedRow: true },
})
const buried: Omit<StoredState, 'event'> = { ...running(2), state: 'x', reason: 'attempts-spent' }
const statesOf = (...states: readonly Omit<StoredState, 'event'>[]): readonly StoredState[] =>
  states.map((state, event) => ({ ...state, event }))

const dies = (event: number, number: number): ProcessFact['deaths'] => [
  { event, run: number, way: 'SIGKILL', isLate: false },
]
const processOf = (fact: Partial<ProcessFact>, states: readonly StoredState[]): ProcessFact => ({
  ...{ how: 'SIGKILL', isFinished: false, deaths: [], settled: [] },
  ...fact,
  stored: { rows: [], states },
})

const row = { id: 1, consumer: 'zoo', event: 0, run: 1, part: 'a' }
const told = [
  { event: 0, round: 0, settlement: processed },
  { event: 1, round: 1, settlement: processed },
  { event: 2, round: 3, settlement: dead },
] as const
const ENDED = statesOf(done, done, buried)

const GOOD: KillHistory = {
  plan: PLAN,
  runs: [
    run({ isRedelivered: false }),
    run({ event: 1, call: 2, beganAt: 4, isRedelivered: false, ...died }),
    run({ event: 1, run: 2, call: 1_001, process: 1 }),
    run({ event: 2, call: 1_002, process: 1, beganAt: 4, ...died }),
    run({ event: 2, run: 2, call: 2_001, process: 2, attempt: 2, ...died }),
  ],
  processes: [
    processOf({ deaths: dies(1, 1), settled: [told[0]] }, statesOf(done, nothing, nothing)),
    processOf({ deaths: dies(2, 1), settled: [told[1]] }, statesOf(done, done, running(1))),
    processOf({ deaths: dies(2, 2) }, statesOf(done, done, running(2))),
    processOf({ how: 0, isFinished: true, settled: [told[2]] }, ENDED),
  ],
  settled: told,
  again: [
    { event: 0, round: 3, settlement: duplicate },
    { event: 1, round: 3, settlement: duplicate },
    { event: 2, round: 3, settlement: dead },
  ],
  rows: [row, { ...row, id: 2, event: 1, run: 2 }],
  states: ENDED,
  ...{ nested: [], left: [], surprises: [], unended: [] },
}

const [first, killed, second, poison, last] = GOOD.runs as unknown as [
  ...[PlayedRun, PlayedRun, PlayedRun, PlayedRun, PlayedRun],
]
const [one, two, three, four] = GOOD.processes as unknown as [
  ...[ProcessFact, ProcessFact, ProcessFact, ProcessFact],
]
const outage = { kind: 'defer', reason: 'store-down', cause: 'store-error', until: 0 } as never
const rest = [killed, second, poison, last]
const poisoned = (attempt: number, process: number): PlayedRun => ({
  ...last,
  ...{ run: process, process, attempt },
})

/** Histories that break a promise, by the rule that must see it. */
const DOCTORED: Readonly<Record<string, readonly Partial<KillHistory>[]>> = {
  surprises: [{ surprises: ['a process ended with 1, after: its end'] }],
  'nothing is left': [{ left: ['a connection is active'] }],
  'every event ends': [{ unended: [2] }],
  'settlements are allowed': [
    { settled: [...told, { event: 0, round: 0, settlement: outage }] },
    { settled: [...told, { event: 2, round: 3, settlement: { ...dead, reason: 'no-verdict' } }] },
    { settled: [...told, { event: 2, round: 3, settlement: { ...dead, reason: 'fatal' } }] },
    { settled: [...told, { event: 0, round: 3, settlement: dead }] },
  ],
  'stored before it is settled': [
    { processes: [{ ...one, stored: { rows: [], states: statesOf(running(1)) } }, two] },
    { processes: [one, two, three, { ...four, stored: three.stored }] },
  ],
  'one processed': [
    { settled: [...told, { event: 1, round: 2, settlement: processed }] },
    {
      settled: [told[0], { event: 1, round: 1, settlement: duplicate }, told[2]],
      processes: [one, { ...two, isFinished: true }, three, four],
    },
  ],
  'the effect is that of one run': [
    { rows: [row] },
    { rows: [row, { ...row, event: 1, run: 1 }] },
    { rows: [row, { ...row, event: 1, run: 1 }, { ...row, event: 1, run: 2 }] },
    { rows: [...(GOOD.rows ?? []), { ...row, event: 2, run: 2 }] },
    { rows: [...(GOOD.rows ?? []), { ...row, part: 'b' }] },
  ],
  'nothing runs after its commit': [
    { runs: [first, { ...first, run: 2, process: 1 }, ...rest] },
    { runs: [{ ...first, isOver: false, overAt: undefined }, ...rest] },
  ],
  'the store knows': [
    { states: statesOf(done, running(1), buried) },
    { states: statesOf(done, done, running(2)) },
  ],
  'a clean run commits': [
    {
      runs: [first, killed, second, { ...second, run: 3, process: 2 }, poison, last],
      rows: [row, { ...row, id: 2, event: 1, run: 3 }],
      processes: [one, { ...two, isFinished: true }, three, four],
    },
  ],
  'poison ends': [
    { states: statesOf(done, done, { ...buried, attempt: 1 }) },
    { runs: [first, killed, second, poison, last, poisoned(2, 3), poisoned(2, 4)] },
  ],
  'attempts are counted': [
    { runs: [first, killed, second, poison, { ...last, attempt: 1 }, poisoned(2, 3)] },
    { runs: [first, killed, second, { ...poison, attempt: 2 }, last] },
    { runs: [first, killed, second, poison, { ...last, attempt: 3 }] },
    { runs: [{ ...first, attempt: 2 }, ...rest] },
  ],
  'neighbours live': [
    {
      runs: [
        { ...first, ...died, doomed: undefined, isRedelivered: true },
        { ...first, ...died, doomed: undefined, run: 2, process: 1, attempt: 2 },
        ...rest,
      ],
      processes: [{ ...one, settled: [] }, two, three, four],
      settled: [{ event: 0, round: 2, settlement: dead }, told[1], told[2]],
      rows: (GOOD.rows ?? []).slice(1),
      states: statesOf(buried, done, buried),
    },
  ],
  'suspects run alone': [
    { runs: [first, killed, { ...second, process: 2, beganAt: 0, overAt: 5 }, poison, last] },
    { runs: [first, killed, { ...second, process: 2, beganAt: 3, overAt: 5 }, poison, last] },
  ],
  'handlers begin clean': [
    { runs: [{ ...first, isIntact: false }, ...rest] },
    { runs: [run({ seen: { ...first.seen, role: 'zoo_limited' } as never }), ...rest] },
  ],
  'a copy finds the outcome': [
    { again: [{ event: 0, round: 3, settlement: processed }] },
    { again: [{ event: 2, round: 3, settlement: duplicate }] },
    { again: [{ event: 0, round: 3, settlement: { ...duplicate, result: 2 } }] },
  ],
  'nested effects': [
    { nested: [1] },
    { rows: [...(GOOD.rows ?? []), { ...row, consumer: 'other' }, { ...row, consumer: 'other' }] },
  ],
  'lanes keep their order': [
    {
      rows: [
        { ...row, id: 3 },
        { ...row, event: 1, run: 2 },
      ],
    },
  ],
}

describe('the judge of handlers that kill their process', () => {
  it('lets a good history pass', () => {
    expect(judgeKills(GOOD)).toBeUndefined()
  })

  it.each(
    Object.entries(DOCTORED).flatMap(([rule, histories]) =>
      histories.map((history, index) => ({ rule, history, index })),
    ),
  )('sees that a promise is broken: $rule, $index', ({ rule, history }) => {
    expect(judgeKills({ ...GOOD, ...history })).toMatch(new RegExp(`^${rule}: `))
  })

  it('allows that an event runs again whose process died beside it, and is counted', () => {
    const again = { event: 0, call: 1_000, run: 2, process: 1 }
    const cut = { ...first, ...died, doomed: undefined }
    const runs = [cut, { ...first, ...again, isRedelivered: true }, ...rest]
    const rows = [{ ...row, run: 2 }, ...(GOOD.rows ?? []).slice(1)]
    const processes = [{ ...one, settled: [] }, { ...two, settled: told.slice(0, 2) }, three, four]
    expect(judgeKills({ ...GOOD, runs, rows, processes })).toBeUndefined()
  })
})
