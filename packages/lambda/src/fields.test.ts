import { expect, test } from 'vitest'
import { fieldsOf, toDate } from './fields.ts'

test.each([undefined, null, true, 5, 'text', () => 1])('%j has no fields', (value) => {
  expect(fieldsOf(value)).toEqual({})
})

test('an object has its own fields', () => {
  const value = { a: 1 }
  expect(fieldsOf(value)).toBe(value)
})

test.each([
  ['1763805600000', new Date(1_763_805_600_000)],
  [1_763_805_600_000, new Date(1_763_805_600_000)],
  ['0', new Date(0)],
  [0, new Date(0)],
  ['-5', new Date(-5)],
  [1.5, new Date(1)],
  ['2026-11-22T10:00:00Z', new Date(Date.UTC(2026, 10, 22, 10))],
  ['2026-11-22', new Date(Date.UTC(2026, 10, 22))],
])('the time %j is a date', (value, date) => {
  expect(toDate(value)).toEqual(date)
})

const NO_TIMES: readonly unknown[] = [
  ...[undefined, null, '', ' ', 'yesterday', 1e30, '9'.repeat(20)],
  ...[true, false, [], [5], ['5'], {}, { toString: '' }],
]

// Red when a time that is no time becomes a date near 1970.
test.each(NO_TIMES.map((value) => [value] as const))('%j is no time', (value) => {
  expect(toDate(value)).toBeUndefined()
})
