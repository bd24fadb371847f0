import { expect, test } from 'vitest'
import { toEpochMs } from '../model/brands.ts'
import { laneFollowerOutcome, type Outcome, settlementOf, stopsLane } from './outcome.ts'

const error = new Error('why')
const NOW = toEpochMs(1_000)

/** design.md §5, row by row. */
const ROWS: readonly (readonly [Outcome, object])[] = [
  [
    { kind: 'processed', attempt: 1, result: 5 },
    { kind: 'ack', by: 'processed', result: 5 },
  ],
  [{ kind: 'duplicate' }, { kind: 'ack', by: 'duplicate' }],
  [{ kind: 'skipped' }, { kind: 'ack', by: 'skipped' }],
  [{ kind: 'unguarded' }, { kind: 'ack', by: 'unguarded' }],
  [
    { kind: 'in-progress', delayMs: 5 },
    { kind: 'defer', reason: 'in-progress', until: 1_005 },
  ],
  [
    { kind: 'not-due', delayMs: 7.2 },
    { kind: 'defer', reason: 'not-due', until: 1_008 },
  ],
  [
    { kind: 'failed', attempt: 1, delayMs: 10, error },
    { kind: 'defer', reason: 'failed', until: 1_010, error },
  ],
  [
    { kind: 'dead', reason: 'fatal', attempt: 1, error },
    { kind: 'dead-letter', reason: 'fatal', error },
  ],
  [
    { kind: 'conflict', policy: 'ack', error },
    { kind: 'ack', by: 'conflict' },
  ],
  [
    { kind: 'conflict', policy: 'throw', error },
    { kind: 'defer', reason: 'failed', until: 2_000, error },
  ],
  [
    { kind: 'store-down', delayMs: 3, error },
    { kind: 'defer', reason: 'store-down', until: 1_003, error },
  ],
  [
    { kind: 'abandoned', reason: 'commit-unknown', error },
    { kind: 'abandon', reason: 'commit-unknown', error },
  ],
]

test.each(ROWS)('%o is settled as %o', (outcome, settlement) => {
  expect(settlementOf(outcome, NOW)).toEqual(settlement)
})

test('a lane stops exactly at defer and abandon', () => {
  for (const [outcome, settlement] of ROWS) {
    const { kind } = settlement as { readonly kind: string }
    expect(stopsLane(outcome)).toBe(kind === 'defer' || kind === 'abandon')
  }
})

test('who follows one that stopped its lane settles with the same time', () => {
  const running = { kind: 'abandoned', reason: 'deadline', error, stillRunning: true } as const
  const followers: readonly (readonly [Outcome, Outcome])[] = [
    [
      { kind: 'failed', attempt: 1, delayMs: 10, error },
      { kind: 'not-due', delayMs: 10 },
    ],
    [
      { kind: 'conflict', policy: 'throw', error },
      { kind: 'not-due', delayMs: 1_000 },
    ],
    // Nothing of the follower itself is still running: it may be given back.
    [running, { kind: 'abandoned', reason: 'deadline', error }],
  ]
  for (const [leader, follower] of followers) expect(laneFollowerOutcome(leader)).toEqual(follower)
  for (const kind of ['in-progress', 'not-due'] as const) {
    expect(laneFollowerOutcome({ kind, delayMs: 5 })).toEqual({ kind, delayMs: 5 })
  }
})
