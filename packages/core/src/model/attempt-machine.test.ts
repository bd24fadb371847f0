import { describe, expect, it } from 'vitest'
import {
  ATTEMPTS,
  type AttemptCommand,
  type AttemptState,
  attemptStep,
  decideCount,
  isOwnerLive,
  LATEST_START_MS,
  type Troubled,
  YOUNG_MS,
} from './attempt-machine.ts'
import type { Fingerprint, OwnerToken } from './brands.ts'
import type { Known } from './inbox.ts'

const fingerprint = 1n as Fingerprint
const waiting = { kind: 'waiting', fingerprint, remainingMs: 0, attempt: 1, alone: false } as const
const running = { kind: 'running', fingerprint, attempt: 1, ageMs: 60_000 } as const
const dead: Known = {
  kind: 'dead',
  ...{ fingerprint, reason: 'fatal', attempt: 1, published: false },
}

const decide = (known: Known, run: 'together' | 'alone', noVerdicts = 0) =>
  decideCount(known, { noVerdicts, run, maxAttempts: 3 })

describe('a count', () => {
  it.each([
    ['waiting and due', waiting, 'counted', 'counted'],
    ['waiting, due in a millisecond', { ...waiting, remainingMs: 1 }, 'changed', 'changed'],
    ['replayed', { ...waiting, alone: true }, 'changed', 'counted'],
    ['without a verdict', running, 'changed', 'counted'],
    ['counted just now', { ...running, ageMs: 4_999 }, 'held', 'held'],
    ['counted five seconds ago', { ...running, ageMs: 5_000 }, 'changed', 'counted'],
    [
      'counted just before the clock was set back a bit',
      { ...running, ageMs: -4_999 },
      'held',
      'held',
    ],
    ['counted before the clock was set back', { ...running, ageMs: -5_000 }, 'changed', 'counted'],
    ['absent', { kind: 'absent' }, 'changed', 'changed'],
    ['done', { kind: 'done', fingerprint }, 'changed', 'changed'],
    ['dead', dead, 'changed', 'changed'],
    ['at its last attempt', { ...waiting, attempt: 3 }, 'buried', 'buried'],
    ['spent, but counted just now', { ...running, attempt: 3, ageMs: 0 }, 'held', 'held'],
  ] as const)('of an event that is %s', (_, known, together, alone) => {
    expect(decide(known, 'together').kind).toBe(together)
    expect(decide(known, 'alone').kind).toBe(alone)
  })

  it('adds one attempt', () => {
    expect(decide(running, 'alone', 8)).toEqual({ kind: 'counted', attempt: 2 })
  })

  it('dead-letters an event after three times as many runs without a verdict, and names the limit', () => {
    const spent = { kind: 'buried', reason: 'attempts-spent', attempt: 3 }
    expect(decide({ ...waiting, attempt: 3 }, 'alone', 9)).toEqual(spent)
    const noVerdict = { kind: 'buried', reason: 'no-verdict', attempt: 2 }
    expect(decide({ ...waiting, attempt: 2 }, 'alone', 9)).toEqual(noVerdict)
  })
})

it('a run that may still start has one second before its row may be taken over', () => {
  expect(isOwnerLive(LATEST_START_MS + 999)).toBe(true)
  expect(isOwnerLive(LATEST_START_MS + 1_000)).toBe(false)
})

const NOW = 1_000_000
const me = 'me' as OwnerToken
const fresh = 'fresh' as OwnerToken

const trouble = (over: Partial<Troubled>): Troubled => ({
  ...{ kind: 'waiting', attempt: 2, noVerdicts: 0, countedAtMs: 7, nextTryAtMs: NOW },
  ...{ parked: false, alone: false, published: false },
  ...over,
})
const mine = trouble({ kind: 'running', token: me, countedAtMs: NOW - YOUNG_MS })
const due = trouble({})
const none: AttemptState = { kind: 'absent' }
const done: AttemptState = { kind: 'done' }
const buried = trouble({ kind: 'dead', reason: 'fatal' })
const first = { attempt: 0, countedAtMs: 0 }

const COMMANDS = {
  suspect: { kind: 'suspect', token: fresh },
  count: { kind: 'count', token: fresh, run: 'alone', maxAttempts: 3 },
  fail: { kind: 'fail', token: me, attempt: 2, delayMs: 500 },
  bury: { kind: 'bury', token: me, attempt: 2, reason: 'fatal' },
  release: { kind: 'release', token: me, as: 'given-back' },
  park: { kind: 'park', isConflict: false },
} as const satisfies { [Kind in AttemptCommand['kind']]: AttemptCommand<Kind> }

const begun = (before: Troubled) => ({
  answer: { kind: 'counted', token: fresh, attempt: before.attempt + 1 },
  next: trouble({
    ...{ ...before, kind: 'running', attempt: before.attempt + 1, token: fresh },
    countedAtMs: NOW,
  }),
})
const changed = { answer: { kind: 'changed' } }
const lost = { answer: 'lost' }
const known = { answer: 'known' }
const parked = (next: Troubled) => ({ answer: 'parked', next: { ...next, parked: true } })

type Cells = { readonly [Kind in AttemptCommand['kind']]: object }
const ended = {
  suspect: changed,
  count: changed,
  fail: lost,
  bury: lost,
  release: lost,
  park: known,
}

const TABLE: readonly (readonly [AttemptState, Cells])[] = [
  [
    none,
    {
      ...ended,
      suspect: begun(trouble({ ...first, nextTryAtMs: 0 })),
      park: parked(trouble(first)),
    },
  ],
  [
    mine,
    {
      suspect: changed,
      count: begun({ ...mine, alone: true }),
      fail: {
        answer: 'recorded',
        next: { ...mine, kind: 'waiting', token: undefined, nextTryAtMs: NOW + 500 },
      },
      bury: {
        answer: 'recorded',
        next: { ...mine, kind: 'dead', token: undefined, reason: 'fatal' },
      },
      release: {
        answer: 'recorded',
        next: { ...mine, kind: 'waiting', token: undefined, attempt: 1 },
      },
      park: parked(mine),
    },
  ],
  [due, { ...ended, count: begun(due), park: parked(due) }],
  [done, ended],
  [buried, ended],
]

describe('the table of attempts', () => {
  for (const [from, cells] of TABLE) {
    it.each(Object.values(COMMANDS))(`${from.kind} on $kind`, (command) => {
      const before = structuredClone(from)
      expect(attemptStep(from, command, NOW)).toEqual(cells[command.kind])
      expect(from).toEqual(before)
    })
  }

  it('has five states and six commands, with a row for each in this test', () => {
    expect(Object.keys(ATTEMPTS)).toEqual(TABLE.map(([{ kind }]) => kind))
    for (const row of Object.values(ATTEMPTS)) {
      expect(Object.keys(row)).toEqual(Object.keys(COMMANDS))
    }
  })

  it('inserts the verdict of a clean run, which has no token', () => {
    const clean = { attempt: 1, token: undefined }
    const { next: waits } = attemptStep(none, { ...COMMANDS.fail, ...clean }, NOW)
    expect(waits).toMatchObject({ kind: 'waiting', attempt: 1, nextTryAtMs: NOW + 500 })
    const { next: dies } = attemptStep(none, { ...COMMANDS.bury, ...clean }, NOW)
    expect(dies).toMatchObject({ kind: 'dead', attempt: 1, reason: 'fatal', published: false })
  })

  it("answers lost to a verdict with another run's token", () => {
    for (const kind of ['fail', 'bury', 'release'] as const) {
      expect(attemptStep(mine, { ...COMMANDS[kind], token: fresh }, NOW)).toEqual(lost)
    }
  })

  it('parks no event that has a stored delivery or another payload', () => {
    const conflict = { kind: 'park', isConflict: true } as const
    for (const state of [mine, due]) {
      expect(attemptStep({ ...state, parked: true }, COMMANDS.park, NOW)).toEqual(known)
      expect(attemptStep(state, conflict, NOW)).toEqual(known)
    }
  })

  it('forgets a released event that has no attempt left, unless it is parked or had no verdict', () => {
    const only = { ...mine, attempt: 1 }
    const released = (state: Troubled, as: 'given-back' | 'no-verdict') =>
      attemptStep(state, { kind: 'release', token: me, as }, NOW).next
    expect(released(only, 'given-back')).toEqual({ kind: 'absent' })
    expect(released({ ...only, parked: true }, 'given-back')).toMatchObject({ attempt: 0 })
    expect(released(only, 'no-verdict')).toMatchObject({ attempt: 0, noVerdicts: 1, alone: true })
  })

  it('records the death of an event whose attempts are spent when it is counted', () => {
    const { answer, next } = attemptStep({ ...mine, attempt: 3 }, COMMANDS.count, NOW)
    expect(answer).toEqual({ kind: 'buried', reason: 'attempts-spent', attempt: 3 })
    expect(next).toMatchObject({ kind: 'dead', reason: 'attempts-spent', token: undefined })
  })
})
