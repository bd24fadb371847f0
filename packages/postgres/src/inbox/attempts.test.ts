import { describe, expect, it } from 'vitest'
import type { KnownRow } from '../statements/attempts.ts'
import { decide } from './attempts.ts'

const ROW: KnownRow = {
  id: '0',
  state: 'w',
  fingerprint: '1',
  attempt: 1,
  noVerdict: 0,
  alone: false,
  published: false,
  reason: null,
  remainingMs: 0,
  ageMs: 60_000,
  hasResult: false,
  result: null,
}
const kindOf = (over: Partial<KnownRow>, run: 'together' | 'alone'): string =>
  decide({ ...ROW, ...over }, run, 3).kind

describe('a count under the lock of the row', () => {
  it.each([
    ['waiting and due', {}, 'counted', 'counted'],
    ['waiting, due in a millisecond', { remainingMs: 1 }, 'changed', 'changed'],
    ['replayed', { alone: true }, 'changed', 'counted'],
    ['without a verdict', { state: 'r' }, 'changed', 'counted'],
    ['counted just now', { state: 'r', ageMs: 4_999 }, 'held', 'held'],
    ['counted five seconds ago', { state: 'r', ageMs: 5_000 }, 'changed', 'counted'],
    ['done', { state: 'd' }, 'changed', 'changed'],
    ['dead', { state: 'x' }, 'changed', 'changed'],
    ['at its last attempt', { attempt: 3 }, 'buried', 'buried'],
    ['at its last run without verdict', { noVerdict: 9 }, 'buried', 'buried'],
    ['spent, but counted just now', { state: 'r', attempt: 3, ageMs: 0 }, 'held', 'held'],
  ] as const)('of an event that is %s', (_, over, together, alone) => {
    expect(kindOf(over, 'together')).toBe(together)
    expect(kindOf(over, 'alone')).toBe(alone)
  })

  it('says which limit was reached', () => {
    expect(decide({ ...ROW, attempt: 3, noVerdict: 9 }, 'alone', 3)).toEqual({
      kind: 'buried',
      reason: 'attempts-spent',
      attempt: 3,
    })
    expect(decide({ ...ROW, attempt: 2, noVerdict: 9 }, 'alone', 3)).toEqual({
      kind: 'buried',
      reason: 'no-verdict',
      attempt: 2,
    })
  })
})
