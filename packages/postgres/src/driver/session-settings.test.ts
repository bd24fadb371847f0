import { expect, test } from 'vitest'
import { DEFAULT_SETTINGS } from '../fixtures/session-settings.ts'
import { durableText, isAtMost, settingMs, shortSettings } from './session-settings.ts'

test.each([
  ['0', 0],
  ['200', 200],
  ['200ms', 200],
  ['500us', 0.5],
  ['30s', 30_000],
  ['5min', 300_000],
  ['12h', 43_200_000],
  ['2d', 172_800_000],
  ['', undefined],
  ['soon', undefined],
  ['1week', undefined],
  ['x1', undefined],
])('%s is %s milliseconds', (setting, ms) => {
  expect(settingMs(setting)).toBe(ms)
})

// Red when a handler that may run for ever is taken for one that ends in time.
test.each([
  ['0', false],
  ['unknown', false],
  ['500us', false],
  ['1ms', true],
  ['10s', true],
  ['10001ms', false],
])('%s ends within a budget of ten seconds: %s', (setting, expected) => {
  expect(isAtMost(setting, 10_000)).toBe(expected)
})

test.each([
  ['off', 'on'],
  ['on', 'on'],
  ['local', 'local'],
  ['remote_apply', 'remote_apply'],
])('a commit under %s waits as under %s', (synchronousCommit, expected) => {
  const settings = { ...DEFAULT_SETTINGS, synchronousCommit }
  expect(durableText(settings)).toBe(`set local synchronous_commit = ${expected}`)
})

// Red when the server ends a short transaction between two statements of which each is in time.
test('a short transaction may stand idle for longer than one of its statements may run', () => {
  const texts = shortSettings(1_000)
  expect(texts).toContain('set local statement_timeout = 1000')
  expect(texts).toContain('set local idle_in_transaction_session_timeout = 2000')
})
