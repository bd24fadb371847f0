import { expect, test } from 'vitest'
import { toEpochMs } from '../model/brands.ts'
import {
  copyOutcome,
  laneFollowerOutcome,
  type Outcome,
  settlementOf,
  stopsLane,
} from './outcome.ts'

const error = new Error('why')
const NOW = toEpochMs(1_000)

/** The rows of the table in design.md §5. */
const ROWS: readonly (readonly [Outcome, object])[] = [
  [
    { kind: 'processed', attempt: 1, result: 5 },
    { kind: 'ack', by: 'processed', result: 5 },
  ],
  [{ kind: 'duplicate' }, { kind: 'ack', by: 'duplicate' }],
  [{ kind: 'parked' }, { kind: 'ack', by: 'parked' }],
  [{ kind: 'skipped' }, { kind: 'ack', by: 'skipped' }],
  [{ kind: 'unguarded' }, { kind: 'ack', by: 'unguarded' }],
  [
    { kind: 'in-progress', delayMs: 5, cause: 'held-by-row' },
    { kind: 'defer', reason: 'in-progress', until: 1_005, cause: 'held-by-row' },
  ],
  [
    { kind: 'not-due', delayMs: 7.2, cause: 'not-due' },
    { kind: 'defer', reason: 'not-due', until: 1_008, cause: 'not-due' },
  ],
  [
    { kind: 'failed', attempt: 1, delayMs: 10, error, cause: 'handler-failed' },
    { kind: 'defer', reason: 'failed', until: 1_010, error, cause: 'handler-failed' },
  ],
  [
    { kind: 'not-stored', attempt: 1, delayMs: 10, error, cause: 'handler-failed' },
    { kind: 'defer', reason: 'failed', until: 1_010, error, cause: 'handler-failed' },
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
    { kind: 'defer', reason: 'failed', until: 2_000, error, cause: 'conflict' },
  ],
  [
    { kind: 'store-down', delayMs: 3, error, cause: 'store-error' },
    { kind: 'defer', reason: 'store-down', until: 1_003, error, cause: 'store-error' },
  ],
  [
    { kind: 'abandoned', reason: 'commit-unknown', error },
    { kind: 'abandon', reason: 'commit-unknown', error, cause: 'commit-unknown' },
  ],
  [
    { kind: 'abandoned', reason: 'commit-unknown', error, cause: 'not-replicated' },
    { kind: 'abandon', reason: 'commit-unknown', error, cause: 'not-replicated' },
  ],
  [
    { kind: 'abandoned', reason: 'closing' },
    { kind: 'abandon', reason: 'closing', cause: 'draining' },
  ],
  [
    { kind: 'abandoned', reason: 'lease-lost' },
    { kind: 'abandon', reason: 'lease-lost', cause: 'lease-lost' },
  ],
]

test.each(ROWS)('%o is settled as %o', (outcome, settlement) => {
  expect(settlementOf(outcome, { now: () => NOW })).toStrictEqual(settlement)
})

test('a lane stops exactly at defer and abandon', () => {
  for (const [outcome, settlement] of ROWS) {
    const { kind } = settlement as { readonly kind: string }
    expect(stopsLane(outcome)).toBe(kind === 'defer' || kind === 'abandon')
  }
})

test('a later event of a stopped lane settles with the same time, because the lane waits', () => {
  const running = { kind: 'abandoned', reason: 'deadline', error, stillRunning: true } as const
  const cause = 'lane-waits'
  const followers: readonly (readonly [Outcome, Outcome])[] = [
    [
      { kind: 'failed', attempt: 1, delayMs: 10, error, cause: 'handler-failed' },
      { kind: 'not-due', delayMs: 10, cause },
    ],
    [
      { kind: 'conflict', policy: 'throw', error },
      { kind: 'not-due', delayMs: 1_000, cause },
    ],
    [
      { kind: 'store-down', delayMs: 3, error, cause: 'breaker-open' },
      { kind: 'store-down', delayMs: 3, error, cause },
    ],
    // The later event itself is not running, so it may be released.
    [running, { kind: 'abandoned', reason: 'deadline', error, cause }],
  ]
  for (const [leader, follower] of followers) expect(laneFollowerOutcome(leader)).toEqual(follower)
  for (const kind of ['in-progress', 'not-due'] as const) {
    const leader = { kind, delayMs: 5, cause: 'held-by-lease' } as const
    expect(laneFollowerOutcome(leader)).toEqual({ kind, delayMs: 5, cause })
  }
})

test('a copy settles like its leader, for the same cause, and a dead-lettered event counts once', () => {
  const held = { kind: 'in-progress', delayMs: 5, cause: 'held-by-lease' } as const
  const failed = {
    kind: 'failed',
    attempt: 1,
    delayMs: 10,
    error,
    cause: 'handler-failed',
  } as const
  const dead = { kind: 'dead', reason: 'fatal', attempt: 1, error } as const
  const running = { kind: 'abandoned', reason: 'closing', stillRunning: true } as const
  expect(copyOutcome(held)).toEqual(held)
  expect(copyOutcome(failed)).toEqual({ kind: 'not-due', delayMs: 10, cause: 'not-due' })
  expect(copyOutcome(dead)).toEqual({ ...dead, repeated: true })
  expect(copyOutcome(running)).toEqual({ kind: 'abandoned', reason: 'closing' })
})
