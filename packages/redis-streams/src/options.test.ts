import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { type ConsumeStreamOptions, resolveSettings } from './options.ts'

const { settings } = handMadeGuard().port

function problemsOf(options: object, guard: object = {}): string {
  try {
    resolveSettings(options as ConsumeStreamOptions, { ...settings, ...guard })
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    return (error as Error).message
  }
  return ''
}

test('an entry is idle after a tenth more than the lease, renewed at a third, under a name of its own', () => {
  const resolved = resolveSettings({ stream: 'orders' }, settings)
  expect(resolved).toMatchObject({
    ...{ streams: ['orders'], group: 'billing', claimIdleMs: 33_000, renewMs: 11_000 },
    ...{ holdMs: 10_000, bodyField: 'payload', keepEntries: false, batchSize: 100 },
  })
  const other = resolveSettings({ stream: ['orders', 'orders', 'mails'] }, settings)
  expect(other.streams).toEqual(['orders', 'mails'])
  expect(other.consumerName).not.toBe(resolved.consumerName)
  const longest = { ...settings, leaseMs: 43_200_000 }
  expect(resolveSettings({ stream: 'orders' }, longest).claimIdleMs).toBe(43_200_000)
})

test.each<[string, object, RegExp]>([
  ['no stream', {}, /`stream` to be text/],
  ['an empty list of streams', { stream: [] }, /`stream` to name a stream, got an empty list/],
  ['an empty name', { stream: ['orders', ''] }, /`stream` to be text, and not empty/],
  ['a group that is no text', { stream: 'a', group: 5 }, /`group` to be text/],
  ['an empty field', { stream: 'a', bodyField: '' }, /`bodyField` to be text/],
  [
    'a dead-letter place that is none',
    { stream: 'a', deadLetter: 'dead' },
    /`deadLetter` to be `\{ stream \}`/,
  ],
  [
    'a dead-letter stream without a name',
    { stream: 'a', deadLetter: {} },
    /`deadLetter.stream` to be text/,
  ],
  [
    'the stream as its own dead-letter stream',
    { stream: ['b', 'a'], deadLetter: { stream: 'a' } },
    /another stream than `stream`/,
  ],
  [
    'a short idle time',
    { stream: 'a', claimIdleMs: 999 },
    /`claimIdleMs` to be an integer from 1000/,
  ],
  ['a long hold', { stream: 'a', holdMs: 60_001 }, /`holdMs` to be an integer from 0 to 60000/],
  [
    'a choice that is no boolean',
    { stream: 'a', keepEntries: 1 },
    /`keepEntries` to be true or false/,
  ],
])('refuses %s', (_, options, problem) => {
  expect(problemsOf(options)).toMatch(problem)
})

test('without an inbox the dead letters need a stream', () => {
  expect(problemsOf({ stream: 'a' }, { hasInbox: false })).toMatch(/without an inbox there is no/)
  expect(problemsOf({ stream: 'a', deadLetter: { stream: 'b' } }, { hasInbox: false })).toBe('')
})
