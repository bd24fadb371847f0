import { ConfigurationError, RetryableError, StoreUnavailableError } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import {
  diagnose,
  endsSession,
  isForbidden,
  isLeftUnfit,
  isOnStandby,
  isRacingReindex,
  needsOwnTransaction,
  toCommitError,
  toStoreError,
} from './errors.ts'

const coded = (code: string, more = {}): Error => Object.assign(new Error(code), { code }, more)

/** What is decided by an error: each letter stands for one decision that is taken. */
function decisions(error: unknown): string {
  const taken = [
    [diagnose(error) === 'store', 'outage'],
    [diagnose(error) === 'serialization', 'race'],
    [endsSession(error), 'discard'],
    [needsOwnTransaction(error), 'own'],
    [isRacingReindex(error), 'reindex'],
    [isLeftUnfit(error), 'unfit'],
    [isForbidden(error), 'forbidden'],
    [isOnStandby(error), 'standby'],
    [toCommitError(error) !== error, 'typed'],
  ] as const
  return taken
    .filter(([is]) => is)
    .map(([, name]) => name)
    .join(' ')
}

// What becomes of the event, the connection and the breaker. `discard`: the pool must not lend the connection again.
test.each<[string, string]>([
  ['40001', 'race own'],
  ['40P01', 'race own'],
  ['55P03', 'own'],
  ['23505', 'own reindex'],
  ['42501', 'discard unfit forbidden typed'],
  ['25001', 'discard unfit'],
  ['25P02', 'discard unfit'],
  ['25006', 'outage discard standby typed'],
  ['0A000', 'discard standby'],
  ['25P03', 'outage discard own typed'],
  ['25P04', 'outage discard own typed'],
  ['57P01', 'outage discard own typed'],
  ['57P02', 'outage discard own typed'],
  ['57P03', 'outage discard own typed'],
  ['57P04', 'outage discard own typed'],
  ['57P05', 'outage discard own typed'],
  ['08000', 'outage discard own typed'],
  ['08P01', 'outage discard own typed'],
  ['28P01', 'outage typed'],
  ['3D000', 'outage typed'],
  ['53100', 'outage typed'],
  ['58030', 'outage typed'],
  ['57014', 'typed'],
  ['42P01', 'typed'],
  ['42P10', 'typed'],
  ['53400', ''],
  ['22012', ''],
  ['23514', ''],
  ['42601', ''],
  ['54001', ''],
  ['XX000', ''],
  ['ECONNRESET', 'outage discard own typed'],
  ['EPIPE', 'outage discard own typed'],
  ['CONNECTION_ENDED', 'outage discard own typed'],
  ['ERR_INVALID_ARG_TYPE', 'discard'],
])('of an error with the code %s: %s', (code, expected) => {
  expect(decisions(coded(code))).toBe(expected)
  expect(decisions(new Error('wrapped', { cause: coded(code) }))).toBe(expected)
})

test.each<[string, unknown, string]>([
  ['a connection that was lost', new Error('Connection terminated'), 'outage discard own typed'],
  ['other words', new Error('about: Connection terminated'), 'discard'],
  ['no error', undefined, 'discard'],
  ['a text', '40001', 'discard'],
])('of %s', (_what, error, expected) => {
  expect(decisions(error)).toBe(expected)
})

test('causes are looked for to a depth of five', () => {
  const wrapped = (depth: number): unknown =>
    depth === 0 ? coded('40001') : { cause: wrapped(depth - 1) }
  expect([diagnose(wrapped(4)), diagnose(wrapped(5))]).toEqual(['serialization', 'other'])
})

describe('an error of COMMIT', () => {
  test('is one of the handler where it has made its transaction read-only', () => {
    expect(toCommitError(coded('25006'))).toBeInstanceOf(RetryableError)
    expect(toCommitError(coded('25006'))).toMatchObject({
      message: expect.stringContaining('leave out `set transaction read only`'),
      cause: coded('25006'),
    })
  })

  test.each([
    ['57014', StoreUnavailableError],
    ['53100', StoreUnavailableError],
    ['42501', ConfigurationError],
    ['42P01', ConfigurationError],
  ])('is typed where it says nothing about the event: %s', (code, type) => {
    const typed = toCommitError(coded(code))
    expect(typed).toBeInstanceOf(type)
    expect(typed).toMatchObject({ message: expect.stringContaining('while committing') })
  })
})

describe('tables that do not fit', () => {
  test.each<[Error, RegExp]>([
    [coded('55000', { routine: 'CheckCmdReplicaIdentity' }), /replica identity default/],
    [coded('42P10'), /no primary key while testing \(42P10\)/],
    [coded('42883'), /Tables of onceward are missing while testing \(42883\)/],
    [coded('42501'), /lacks rights that onceward needs while testing \(42501\)/],
  ])('are named, with what to do: %s', (error, words) => {
    const typed = toStoreError(error, 'testing')
    expect(typed).toBeInstanceOf(ConfigurationError)
    expect([typed.message, typed.cause]).toEqual([expect.stringMatching(words), error])
  })

  test('may be the reason of what a server does not support, and not of a standby', () => {
    const hints = ['0A000', '25006'].map((code) => toStoreError(coded(code), 'testing').message)
    expect(hints.map((hint) => /start the guard again/.test(hint))).toEqual([true, false])
  })

  test('are no reason of another failure', () => {
    expect(toStoreError(coded('53100'), 'testing').message).toBe(
      'PostgreSQL failed while testing: 53100 [53100].',
    )
    expect(toStoreError(new Error('no'), 'testing').message).toBe(
      'PostgreSQL failed while testing: no.',
    )
  })
})
