import { YOUNG_MS } from '@onceward/core/adapter'
import { describe, expect, test } from 'vitest'
import { facts, LEASE, NOW, REDIS, REGISTERED, TROUBLE } from '../fixtures/facts.ts'
import type { EventFacts } from './event-facts.ts'
import { type NextDelivery, nextDelivery } from './next-delivery.ts'

type Case = readonly [title: string, over: Partial<EventFacts>, next: object]

const LATER = NOW + 9_000
const row = (state: 'd' | 'r' | 'w' | 'x') => ({ row: { state, atMs: NOW - 60_000 } })
const next = (over: Partial<EventFacts>): NextDelivery => nextDelivery(facts(over))
const why = (text: string) => expect.stringContaining(text)
const DUPLICATE = { kind: 'ack', reason: 'duplicate' }
const heldUntil = (untilMs: number) => ({ kind: 'defer', reason: 'in-progress', untilMs })
const waitsUntil = (untilMs: number) => ({ kind: 'defer', reason: 'not-due', untilMs })

describe('by the row of the event', () => {
  test.each<Case>([
    ['is unknown', {}, { kind: 'run', attempt: 1, why: why('No store has heard') }],
    ['is done', row('d'), { ...DUPLICATE, why: 'Its effect is committed.' }],
    [
      'waits',
      { ...row('w'), trouble: { ...TROUBLE, nextTryMs: LATER } },
      { ...waitsUntil(LATER), why: why('failed') },
    ],
    [
      'is due',
      { ...row('w'), trouble: { ...TROUBLE, attempt: 2, nextTryMs: NOW } },
      { kind: 'run', attempt: 3, why: why('wait after its last attempt is over') },
    ],
    ['waits, without a row of its trouble', row('w'), { kind: 'run', attempt: 1 }],
    [
      'is parked and due',
      { ...row('w'), trouble: { ...TROUBLE, parked: true, reason: 'fatal', nextTryMs: NOW } },
      { kind: 'run', why: why('parked and due') },
    ],
    [
      'is being sent back to its queue',
      { ...row('w'), trouble: { ...TROUBLE, reason: 'fatal', nextTryMs: NOW } },
      { kind: 'run', why: why('send its message back') },
    ],
    [
      'has just begun a run',
      { ...row('r'), trouble: { ...TROUBLE, countedAtMs: NOW - YOUNG_MS + 1 } },
      { ...heldUntil(NOW + 1), why: why('less than 5 s ago') },
    ],
    [
      'has left a run without a result',
      { ...row('r'), trouble: { ...TROUBLE, attempt: 1, countedAtMs: NOW - YOUNG_MS } },
      { kind: 'run', attempt: 2, why: why('probably killed') },
    ],
    [
      'runs, and no count of it is known',
      row('r'),
      { kind: 'run', attempt: 1, why: why('probably killed') },
    ],
    [
      'is dead',
      { ...row('x'), trouble: { ...TROUBLE, reason: 'fatal' } },
      { kind: 'dead-letter', reason: 'fatal', why: why('until an operator replays') },
    ],
    [
      'is dead, and nothing says why',
      row('x'),
      { kind: 'dead-letter', reason: 'attempts-spent', why: why('until an operator replays') },
    ],
    [
      'was discarded',
      { ...row('x'), trouble: { ...TROUBLE, reason: 'fatal', discardedAtMs: NOW } },
      { kind: 'dead-letter', reason: 'fatal', why: why('cannot be replayed') },
    ],
  ])('an event that %s', (_, over, expected) => {
    expect(next(over)).toMatchObject(expected)
  })

  test('a further attempt may be one too many for the guard, and the first one never is', () => {
    for (const first of [next({}), next(row('w'))]) {
      expect(first).toMatchObject({ attempt: 1 })
      expect(first.why).not.toContain('retry.attempts')
    }
    expect(next({ ...row('w'), trouble: { ...TROUBLE, attempt: 1, nextTryMs: NOW } }).why).toMatch(
      /less than 2, it is dead-lettered instead/,
    )
  })
})

describe('by the table of leases', () => {
  test.each<Case>([
    ['done', { lease: { ...LEASE, state: 'd' } }, { ...DUPLICATE, why: why('`leases`') }],
    [
      'dead',
      { lease: { ...LEASE, state: 'x', reason: 'no-verdict' } },
      { kind: 'dead-letter', reason: 'no-verdict', why: why('`forget`') },
    ],
    [
      'dead for no known reason',
      { lease: { ...LEASE, state: 'x', reason: null, endsAtMs: LATER } },
      { kind: 'dead-letter', reason: 'attempts-spent' },
    ],
    [
      'held',
      { lease: { ...LEASE, state: 'p', endsAtMs: LATER } },
      { ...heldUntil(LATER), why: why('holds its lease') },
    ],
    [
      'waiting',
      { lease: { ...LEASE, state: 'w', endsAtMs: LATER } },
      { ...waitsUntil(LATER), why: why('failed') },
    ],
    [
      'due, without an inbox',
      { lease: { ...LEASE, state: 'w', attempt: 2, endsAtMs: NOW } },
      { kind: 'run', attempt: 3, why: why('wait after its last attempt is over') },
    ],
    [
      'left by its process, without an inbox',
      { lease: { ...LEASE, state: 'p', attempt: 1, endsAtMs: NOW } },
      { kind: 'run', attempt: 2, why: why('`onTakeover`') },
    ],
    [
      'left by its process, beside an inbox that has counted nothing',
      { registration: REGISTERED, lease: { ...LEASE, state: 'p', attempt: 4, endsAtMs: NOW } },
      { kind: 'run', attempt: 1, why: why('ended without a result') },
    ],
    ['unreadable', { lease: 'forbidden' }, { kind: 'run', attempt: 1, why: why('No store') }],
    [
      'over, and its row is done',
      { ...row('d'), lease: { ...LEASE, state: 'p', endsAtMs: NOW } },
      DUPLICATE,
    ],
    [
      'held, though its row waits',
      {
        ...row('w'),
        trouble: { ...TROUBLE, nextTryMs: NOW },
        lease: { ...LEASE, state: 'p', endsAtMs: LATER },
      },
      heldUntil(LATER),
    ],
  ])('an event whose lease is %s', (_, over, expected) => {
    expect(next(over)).toMatchObject(expected)
  })
})

describe('by Redis, which is asked first', () => {
  test.each<Case>([
    ['done', { ...row('w'), redis: { ...REDIS, kind: 'done' } }, DUPLICATE],
    ['marked', { redis: { ...REDIS, isMarked: true } }, { ...DUPLICATE, why: why('Redis') }],
    [
      'held',
      { ...row('d'), redis: { ...REDIS, kind: 'in-progress', remainingMs: 9_000 } },
      { ...heldUntil(LATER), why: why('lease in Redis') },
    ],
    [
      'waiting',
      { redis: { ...REDIS, kind: 'waiting', remainingMs: 9_000 } },
      { ...waitsUntil(LATER), why: why('wait in Redis') },
    ],
    ['held no longer', { ...row('d'), redis: { ...REDIS, kind: 'in-progress' } }, DUPLICATE],
    ['waiting no longer', { redis: { ...REDIS, kind: 'waiting' } }, { kind: 'run', attempt: 1 }],
    // With an inbox, PostgreSQL decides whether an event is dead: operators replay it there.
    ['dead', { redis: { ...REDIS, kind: 'dead', remainingMs: 9_000 } }, { kind: 'run' }],
    ['absent', { ...row('x'), redis: REDIS }, { kind: 'dead-letter' }],
  ])('an event that is %s there', (_, over, expected) => {
    expect(next(over)).toMatchObject(expected)
  })
})
