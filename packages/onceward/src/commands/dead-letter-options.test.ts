import { Command } from 'commander'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type FilterFlags, filterOf, says, withFilters } from './dead-letter-options.ts'

const NOW = Date.UTC(2026, 10, 22)
const parsed = (...args: readonly string[]): FilterFlags => {
  const made = withFilters(new Command())
    .exitOverride()
    .configureOutput({ writeErr: () => undefined })
  return made.parse(args, { from: 'user' }).opts<FilterFlags>()
}

afterEach(() => {
  vi.useRealTimers()
})

test('a filter of all flags', () => {
  vi.useFakeTimers({ now: NOW })
  const filter = filterOf(
    parsed(
      ...['--consumer', 'billing', '--reason', 'fatal', '--kind', 'refused', '--search', 'card'],
      ...['--since', '2h', '--until', '2026-11-21T00:00:00Z', '--limit', '5'],
    ),
  )
  expect(filter).toEqual({
    ...{ consumer: 'billing', reason: 'fatal', kind: 'refused', search: 'card', limit: 5 },
    ...{ sinceMs: NOW - 7_200_000, untilMs: NOW - 86_400_000 },
  })
})

test('a filter of none selects by nothing', () => {
  const filter = filterOf(parsed())
  expect(filter).toEqual({})
  expect(says(filter)).toBe(false)
})

test.each([
  ['--consumer', 'billing'],
  ...['fatal', 'attempts-spent', 'no-verdict', 'invalid-payload', 'fingerprint-mismatch'].map(
    (reason) => ['--reason', reason],
  ),
  ['--reason', 'missing-event-key'],
  ['--reason', 'takeover'],
  ['--kind', 'event'],
  ['--search', 'card'],
  ['--since', '0s'],
  ['--until', '2h'],
])('%s %s selects', (flag, value) => {
  expect(says(filterOf(parsed(String(flag), String(value))))).toBe(true)
})

test('a number alone selects nothing, and the least is 1', () => {
  expect(says(filterOf(parsed('--limit', '1')))).toBe(false)
  expect(filterOf(parsed('--limit', '1'))).toEqual({ limit: 1 })
})

describe('refused is', () => {
  test.each([
    [{ consumer: '' }, '--consumer not to be empty'],
    [{ search: ' ' }, '--search not to be empty'],
    [{ since: 'soon' }, '--since to be a time'],
    [{ until: 'soon' }, '--until to be a time'],
    [{ limit: '0' }, '--limit to be a whole number from 1 up'],
  ])('%j', (flags, message) => {
    expect(() => filterOf(flags)).toThrow(
      expect.objectContaining({ exitCode: 2, message: expect.stringContaining(message) }),
    )
  })

  test.each([
    ['--reason', 'unlucky'],
    ['--kind', 'both'],
  ])('%s %s, which is none of the choices', (flag, value) => {
    expect(() => parsed(flag, value)).toThrow(/Allowed choices are/)
  })
})
