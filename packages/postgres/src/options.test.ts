import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { businessOptions, DEFAULTS } from './options.ts'

test('what is left out has its default, and nobody can change the defaults', () => {
  expect(businessOptions({})).toEqual({ isolation: 'read committed', commitSilenceMs: 30_000 })
  const nothing = { isolation: undefined, commitSilenceMs: undefined }
  expect(businessOptions(nothing)).toEqual(DEFAULTS)
  expect(Object.isFrozen(DEFAULTS)).toBe(true)
})

test.each([
  ['read committed', 100],
  ['repeatable read', 30_000],
  ['serializable', 3_600_000],
] as const)('%s and %d ms are taken', (isolation, commitSilenceMs) => {
  expect(businessOptions({ isolation, commitSilenceMs })).toEqual({ isolation, commitSilenceMs })
})

// Red when it reaches the server: every claim would fail, or run under another level than was meant.
test.each([
  ['isolation', 'snapshot', 'one of read committed, repeatable read, serializable'],
  ['isolation', 'SERIALIZABLE', 'one of read committed, repeatable read, serializable'],
  ['commitSilenceMs', 99, 'an integer from 100 to 3600000'],
  ['commitSilenceMs', 3_600_001, 'an integer from 100 to 3600000'],
  ['commitSilenceMs', 100.5, 'an integer from 100 to 3600000'],
  ['commitSilenceMs', Number.NaN, 'an integer from 100 to 3600000'],
])('%s is refused that is %s', (name, value, expected) => {
  const refused = () => businessOptions({ [name]: value })
  expect(refused).toThrow(ConfigurationError)
  expect(refused).toThrow(`Expected \`${name}\` to be ${expected}, got \`${value}\``)
})
