import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { businessOptions, DEFAULTS } from './options.ts'

test('what is left out has its default, and nobody can change the defaults', () => {
  expect(businessOptions({})).toEqual({ isolation: 'read committed', commitSilenceMs: 30_000 })
  const nothing = { isolation: undefined, commitSilenceMs: undefined }
  expect(businessOptions(nothing)).toEqual(DEFAULTS)
  expect(Object.isFrozen(DEFAULTS)).toBe(true)
})

test.each(['read committed', 'repeatable read', 'serializable'] as const)(
  '%s is taken',
  (isolation) => {
    expect(businessOptions({ isolation })).toEqual({ ...DEFAULTS, isolation })
  },
)

// Red when it reaches the server: every claim would fail, or run under another level than was meant.
test.each([
  ['isolation', 'snapshot', 'one of read committed, repeatable read, serializable'],
  ['isolation', 'SERIALIZABLE', 'one of read committed, repeatable read, serializable'],
])('%s is refused that is %s', (name, value, expected) => {
  const refused = () => businessOptions({ [name]: value })
  expect(refused).toThrow(ConfigurationError)
  expect(refused).toThrow(`Expected \`${name}\` to be ${expected}, got \`${value}\``)
})
