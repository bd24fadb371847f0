import { describe, expect, test } from 'vitest'
import type { DeadLetterSummary } from '../data/dead-letters.ts'
import { countsText, listText } from './dead-letters.ts'

const MARKED = { style: (style: unknown, text: string) => `<${String(style)}>${text}</>` }
const PLAIN = { style: (_: unknown, text: string) => text }
const AT = Date.UTC(2026, 10, 22, 20, 0, 0, 123)

const SUMMARY: DeadLetterSummary = {
  ...{ id: 'e-1', kind: 'event', consumer: 'billing', reason: 'fatal', key: 'o-1', tenant: null },
  ...{ attempts: 2, firstFailedAtMs: AT - 1_000, lastFailedAtMs: AT, published: false },
  ...{ isRequeued: false, bodyBytes: 7, isOmitted: false, error: 'Error: declined\n    at pay' },
}
const COUNT = { consumer: 'billing', reason: 'fatal', count: 1, oldestMs: AT }

describe('the list', () => {
  const rows = (letter: Partial<DeadLetterSummary>) =>
    listText({ letters: [{ ...SUMMARY, ...letter }], counts: [COUNT] }, PLAIN).split('\n')

  test('of none says so', () => {
    expect(listText({ letters: [], counts: [] }, PLAIN)).toBe(
      'There are no dead letters that match.',
    )
  })

  test('has a head, a row for each, and the counts', () => {
    expect(listText({ letters: [SUMMARY], counts: [COUNT] }, MARKED)).toBe(
      [
        '<bold>ID   CONSUMER  REASON  ATTEMPTS  LAST FAILED          KEY  ERROR</>',
        'e-1  billing   fatal   2         2026-11-22T20:00:00  o-1  Error: declined',
        '',
        '1 dead letter:',
        '  billing  fatal  1',
      ].join('\n'),
    )
  })

  test('says how many there are besides', () => {
    const counts = [COUNT, { ...COUNT, reason: 'no-verdict', count: 4 }]
    expect(listText({ letters: [SUMMARY], counts }, PLAIN)).toContain(
      'The oldest 1 of 5 dead letters:\n  billing  fatal  1\n  billing  no-verdict  4',
    )
  })

  test('shows what is not known as a dash, and a requeue that nobody confirmed', () => {
    expect(rows({ key: null, error: null })[1]).toMatch(/ {2}– {4}–$/)
    expect(rows({ isRequeued: true })[1]).toContain('fatal (requeue not confirmed)  2')
  })

  test('cuts long keys and errors, after what hides is shown', () => {
    const [, row = ''] = rows({ key: `\u001b${'k'.repeat(50)}`, error: 'e'.repeat(80) })
    expect(row).toContain(`\\u{1b}${'k'.repeat(33)}…  ${'e'.repeat(59)}…`)
  })
})

test('counts are lines, in which nothing is hidden', () => {
  const counts = [
    { consumer: 'a\u001b', reason: 'b\u202e', count: 2 },
    { consumer: 'c', reason: 'd', count: 1 },
  ]
  expect(countsText(counts)).toBe('  a\\u{1b}  b\\u{202e}  2\n  c  d  1')
})
