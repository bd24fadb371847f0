import { describe, expect, test } from 'vitest'
import type { ConsumerStatus, Status, TableStatus } from '../data/status.ts'
import { NOW } from '../fixtures/facts.ts'
import { type Shown, statusText } from './status.ts'

const MARKED = { style: (style: unknown, text: string) => `<${String(style)}>${text}</>` }
const CONSUMER: ConsumerStatus = {
  ...{ id: 1, name: 'billing', dedupWindowMs: 1, seenAtMs: NOW - 2_000, hasPlace: true, parked: 5 },
  ...{ inHand: 3, oldestInHandMs: null, waiting: 4, nextTryMs: null, oldestWaitingMs: null },
  ...{ overdueMs: 0, unpublished: 0, oldestUnpublishedMs: null, unpublishedLate: 0 },
  ...{ doneMinute: 10, doneHour: 600, failedHour: 2, dead: [] },
}
const TABLE: TableStatus = {
  ...{ name: 'audit', rows: 1_234.6, bytes: 8_192, inserted: 100, updated: 0, deleted: 20 },
  ...{ deadRows: 1_000, vacuumedAtMs: null },
}
const STATUS: Status = {
  ...{ nowMs: NOW, version: 3, sweptAtMs: null, consumers: [CONSUMER], tables: [TABLE] },
  ...{ leases: null, ratesAreWhole: true },
}
const text = (over: Partial<Status> = {}, before?: Shown['before']): string =>
  statusText({ status: { ...STATUS, ...over }, before }, MARKED)

test('the status is what is known of the tables, a row of each consumer and of each table', () => {
  expect(text()).toBe(
    [
      'tables version 3, never swept',
      [
        '<bold>CONSUMER  DONE/MIN  DONE/H  FAILED/H  IN HAND  WAITING  PARKED  DEAD  OLDEST WAITING  NEXT TRY  SEEN</>',
        'billing   10        600     2         3        4        5       0     –               –         2 s ago',
      ].join('\n'),
      [
        '<bold>TABLE  ROWS (ABOUT)  SIZE     DEAD ROWS  GROWTH</>',
        'audit  1,235         8.0 KiB  1,000      –',
      ].join('\n'),
    ].join('\n\n'),
  )
})

test('a sweep, leases, bounds and the lack of consumers are said', () => {
  const some = text({ sweptAtMs: NOW - 60_000, leases: 0, consumers: [], ratesAreWhole: false })
  const [about, none] = some.split('\n\n')
  expect(about).toBe('tables version 3, swept 1 min ago, 0 leases in PostgreSQL')
  expect(none).toBe('No consumer has registered yet.')
  expect(some).toMatch(/\n\nDone counts are a lower bound: .*\.$/)
})

test('what waits says for how long and until when', () => {
  const waiting = { oldestWaitingMs: NOW - 60_000, nextTryMs: NOW + 5_000 }
  expect(text({ consumers: [{ ...CONSUMER, ...waiting }] })).toContain(
    '1 min ago       in 5 s    2 s ago',
  )
})

test('dead letters are counted by reason, and those that no place has taken', () => {
  const letters = { consumer: 'billing', reason: 'fatal', count: 2, oldestMs: NOW - 60_000 }
  const dead = [letters, { ...letters, reason: 'no-verdict', count: 5 }]
  const unpublished = { unpublished: 3, oldestUnpublishedMs: NOW - 3_600_000 }
  const parts = text({ consumers: [{ ...CONSUMER, ...unpublished, dead }, CONSUMER] }).split('\n\n')
  expect(parts[1]).toMatch(/ {2}5 {7}7 {5}–/)
  expect(parts.slice(2, 4)).toEqual([
    'DEAD LETTERS OF  REASON      COUNT  OLDEST\nbilling          fatal       2      1 min\nbilling          no-verdict  5      1 min',
    'NOT PUBLISHED YET  COUNT  OLDEST\nbilling            3      1 h',
  ])
})

describe('the growth of a table', () => {
  const grown = (then: Partial<TableStatus>, seconds: number): string | undefined => {
    const other = { ...TABLE, name: 'leases', inserted: 1_000_000, deleted: 1_000_000 }
    const tables = [other, { ...TABLE, ...then }]
    const before = { ...STATUS, nowMs: NOW - seconds * 1_000, tables }
    return text({}, before).split('\n').at(-1)?.split(/ {2,}/).at(-1)
  }

  test.each<readonly [Partial<TableStatus>, number, string]>([
    [{ inserted: 50, deleted: 10 }, 20, '+2.5 −0.5 rows/s'],
    [{}, 5, '+0.0 −0.0 rows/s'],
    // The statistics of the server were reset.
    [{ inserted: 500, deleted: 500 }, 5, '+0.0 −0.0 rows/s'],
    [{ name: 'gone' }, 5, '–'],
    [{}, 0, '–'],
    [{}, -5, '–'],
  ])('since %j, %i seconds before, is %s', (then, seconds, growth) => {
    expect(grown(then, seconds)).toBe(growth)
  })
})
