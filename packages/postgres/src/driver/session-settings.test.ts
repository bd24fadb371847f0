import { expect, test } from 'vitest'
import { DEFAULT_SETTINGS } from '../fixtures/session-settings.ts'
import {
  durableText,
  isAtMost,
  ownIdentity,
  READ_SETTINGS,
  type SessionSettings,
  settingMs,
  settingsIn,
  shortSettings,
} from './session-settings.ts'

const ROW = {
  ...{ lock_timeout: '1s', statement_timeout: '2s', idle_timeout: '3s', role: 'tenant' },
  ...{ synchronous_commit: 'off', client_min_messages: 'error', session_user_name: 'app' },
}

test('each setting is read into its own field', () => {
  expect(settingsIn(ROW)).toEqual({
    ...{ lockTimeout: '1s', handlerLockTimeout: '1s', statementTimeout: '2s', idleTimeout: '3s' },
    ...{ synchronousCommit: 'off', clientMinMessages: 'error', sessionUser: 'app', role: 'tenant' },
  } satisfies SessionSettings)
})

// Red when a column has another name than the field reads: every setting would be the text "undefined".
test.each([...Object.keys(ROW), 'client_encoding'])('%s is among what is read', (column) => {
  expect(READ_SETTINGS.split(', ').map((each) => each.split(' as ')[1])).toContain(column)
})

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

test('the user and the role of a session are named so that nothing of them is a statement', () => {
  const settings = { ...DEFAULT_SETTINGS, sessionUser: "o'hara", role: 'a\\b' }
  expect(ownIdentity(settings)).toEqual([
    "set session authorization 'o''hara'",
    "set role  E'a\\\\b'",
  ])
})

// Red when the server ends a short transaction between two statements of which each is in time.
test('a short transaction may stand idle for longer than one of its statements may run', () => {
  const texts = shortSettings(1_000)
  expect(texts).toContain('set local statement_timeout = 1000')
  expect(texts).toContain('set local idle_in_transaction_session_timeout = 2000')
})
