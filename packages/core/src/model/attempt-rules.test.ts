import { describe, expect, it } from 'vitest'
import { decideCount, isOwnerLive, LATEST_START_MS } from './attempt-rules.ts'
import type { Fingerprint } from './brands.ts'
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
