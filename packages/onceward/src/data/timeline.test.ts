import { describe, expect, test } from 'vitest'
import { facts, LEASE, NOW, REDIS, TROUBLE } from '../fixtures/facts.ts'
import type { EventFacts } from './event-facts.ts'
import { timelineOf } from './timeline.ts'

const REFUSED = {
  ...{ id: 'r-1', times: 1, firstFailedAtMs: NOW - 9_000, lastFailedAtMs: NOW - 8_000 },
  ...{ reason: 'fingerprint-mismatch', error: null, published: false, replay: false },
}
const ASKED = { atMs: NOW - 1_000, who: 'alice', action: 'replay', target: facts().id, why: null }
const row = (state: 'd' | 'r' | 'w' | 'x') => ({ row: { state, atMs: NOW - 60_000 } })
/** Each chapter as its seconds from now and its text. */
const told = (over: Partial<EventFacts>): readonly string[] =>
  timelineOf(facts(over)).chapters.map(({ atMs, what }) => `${(atMs - NOW) / 1_000}: ${what}`)
const details = (over: Partial<EventFacts>) =>
  timelineOf(facts(over)).chapters.map(({ detail }) => detail)

describe('the state', () => {
  test.each<readonly [Partial<EventFacts>, string]>([
    [{}, 'not known to PostgreSQL: no effect and no trouble'],
    [{ lease: 'forbidden' }, 'not known to PostgreSQL: no effect and no trouble'],
    [row('d'), 'done: its effect is committed'],
    [row('r'), 'running, or its last run has no recorded result'],
    [row('w'), 'waiting for its next attempt'],
    [{ ...row('x'), lease: { ...LEASE, state: 'd' } }, 'dead'],
    [
      { lease: { ...LEASE, state: 'p' } },
      'running, or its last run has no recorded result (in the table leases)',
    ],
    [{ lease: { ...LEASE, state: 'd' } }, 'done, and its result is stored (in the table leases)'],
    [{ lease: { ...LEASE, state: 'x' } }, 'dead (in the table leases)'],
  ])('of %j is %s', (over, state) => {
    expect(timelineOf(facts(over)).state).toBe(state)
  })
})

describe('of an event with trouble', () => {
  const FIRST = { ...TROUBLE, firstFailedAtMs: NOW - 5_000 }

  test('the first trouble is told, where it is not the last one too', () => {
    expect(told({ trouble: TROUBLE })).toEqual([])
    expect(told({ trouble: FIRST })).toEqual(['-5: the first attempt was counted or failed'])
    expect(told({ trouble: { ...FIRST, parked: true } })).toEqual([
      '-5: the event was parked, or its first attempt was counted or failed',
    ])
  })

  test('the last run is told, unless none was counted', () => {
    const counted = { ...TROUBLE, attempt: 2, countedAtMs: NOW - 3_000 }
    expect(told({ trouble: counted })).toEqual(['-3: attempt 2 began'])
    expect(told({ trouble: { ...counted, attempt: 0 } })).toEqual([])
    expect(told({ trouble: { ...counted, countedAtMs: null } })).toEqual([])
  })

  test.each<readonly [Partial<typeof TROUBLE>, string]>([
    [{ error: 'Error: down' }, 'its last failure; 1 attempt so far'],
    [{ error: 'Error: down', attempt: 0 }, 'its last failure before the replay'],
    [{ reason: 'takeover', attempt: 0 }, 'dead-lettered (takeover) before its first attempt'],
    [
      { error: 'Error: down', attempt: 3, noVerdict: 1 },
      'its last failure; 3 attempts so far, 1 of them without a recorded result',
    ],
    [{ reason: 'fatal' }, 'dead-lettered (fatal) after 1 attempt'],
    [
      { reason: 'fatal', published: true },
      'dead-lettered (fatal) after 1 attempt; published to the dead-letter place',
    ],
    [{ error: 'Error: down', published: true }, 'its last failure; 1 attempt so far'],
  ])('%j was %s', (over, what) => {
    const trouble = { ...TROUBLE, ...over }
    expect(told({ ...row('x'), trouble })).toEqual([`-2: ${what}`])
    expect(details({ trouble })).toEqual([over.error])
  })
})

test('a message with the same key was refused, once or several times', () => {
  const refused = [
    REFUSED,
    { ...REFUSED, id: 'r-2', times: 3, replay: true, error: 'another payload' },
  ]
  expect(told({ refused })).toEqual([
    '-8: a message with this key was refused (fingerprint-mismatch), once; dead letter r-1',
    '-8: a message with this key was refused (fingerprint-mismatch), 3 times; dead letter r-2; its replay is due',
  ])
  expect(details({ refused })).toEqual([undefined, 'another payload'])
  expect(timelineOf(facts({ refused })).chapters[0]).not.toHaveProperty('detail')
})

test('an operator asked for something, with the reason if one was given', () => {
  const discard = { ...ASKED, atMs: NOW - 500, action: 'discard', why: 'test data' }
  const requeue = { ...ASKED, atMs: NOW - 400, action: 'requeue' }
  const other = { ...ASKED, atMs: NOW - 300, action: 'forget' }
  expect(told({ audit: [ASKED, discard, requeue, other] })).toEqual([
    '-1: alice replayed it',
    '-0.5: alice discarded it',
    '-0.4: alice began to send its message back to the queue',
    '-0.3: alice asked for: forget',
  ])
  expect(details({ audit: [ASKED, discard] })).toEqual([undefined, 'test data'])
  expect(timelineOf(facts({ audit: [ASKED] })).chapters[0]).not.toHaveProperty('detail')
})

describe('leases', () => {
  const held = { ...LEASE, endsAtMs: NOW + 4_000, attempt: 2 }
  const inRedis = { ...REDIS, kind: 'in-progress', remainingMs: 7_000, attempt: 3 } as const

  test.each<readonly [Partial<EventFacts>, readonly string[]]>([
    [{ lease: held }, ['4: the lease ends (attempt 2)']],
    [{ lease: { ...held, state: 'w' } }, ['4: the wait in `leases` ends (attempt 2)']],
    [{ lease: { ...held, state: 'd' } }, []],
    [{ lease: { ...held, state: 'x' } }, []],
    [{ lease: 'forbidden' }, []],
    [{ redis: inRedis }, ['7: the lease in Redis ends (attempt 3)']],
    [{ redis: { ...inRedis, kind: 'waiting' } }, ['7: the wait in Redis ends (attempt 3)']],
    [{ redis: { ...inRedis, kind: 'dead' } }, []],
    [{ redis: REDIS }, []],
  ])('%j', (over, expected) => {
    expect(told(over)).toEqual(expected)
  })
})

test('all is told in the order in which it happened, with what comes next', () => {
  const trouble = {
    ...TROUBLE,
    error: 'Error: down',
    lastFailedAtMs: NOW - 500,
    countedAtMs: NOW - 700,
  }
  const story = timelineOf(facts({ ...row('w'), trouble, refused: [REFUSED], audit: [ASKED] }))
  expect(story.chapters.map(({ atMs }) => (atMs - NOW) / 1_000)).toEqual([
    ...[-8, -2, -1, -0.7, -0.5, 1],
  ])
  expect(story.next).toMatchObject({ kind: 'defer', untilMs: NOW + 1_000 })
})
