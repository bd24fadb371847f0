import { handMadeGuard } from '@onceward/testing/adapter'
import type { ConsumerConfig } from 'kafkajs'
import { expect, test } from 'vitest'
import { deadLetterFindings, timeFindings, topicFindings } from './doctor.ts'
import { resolveConsumerSettings } from './options.ts'

const DAY_MS = 86_400_000
const guard = handMadeGuard().port.settings

test.each([
  ['a week', { retentionMs: 7 * DAY_MS, isCompacted: false }, 'nothing'],
  ['unknown', { retentionMs: undefined, isCompacted: false }, 'nothing'],
  ['a month', { retentionMs: 30 * DAY_MS, isCompacted: false }, 'problem'],
  ['for ever', { retentionMs: Number.POSITIVE_INFINITY, isCompacted: false }, 'warning'],
  ['the last of each key', { retentionMs: 30 * DAY_MS, isCompacted: true }, 'warning'],
])('acceptance A16: a topic that keeps records for %o gives a %s', (_what, facts, expected) => {
  const { problems, warnings } = topicFindings({ topic: 'orders', ...facts }, guard)
  const found = problems.length > 0 ? 'problem' : warnings.length > 0 ? 'warning' : 'nothing'
  expect(found).toBe(expected)
  expect([...problems, ...warnings].every((text) => text.includes('dedupWindowMs'))).toBe(true)
})

function warningsOf(consumer: Partial<ConsumerConfig>, settings = guard): readonly string[] {
  const resolved = resolveConsumerSettings({ topics: ['orders'], consumer }, settings)
  return timeFindings(resolved, settings).warnings
}

test('the defaults give no warning, with and without leases', () => {
  expect(warningsOf({})).toEqual([])
  expect(warningsOf({}, { ...guard, hasLeases: true })).toEqual([])
})

test.each<[string, Partial<ConsumerConfig>]>([
  ['heartbeatInterval', { heartbeatInterval: 4_000 }],
  ['maxWaitTimeInMs', { maxWaitTimeInMs: 4_000 }],
  ['retries', { retry: { retries: 2 } }],
  ['allowAutoTopicCreation', { allowAutoTopicCreation: true }],
])('%s gives a warning with its fix', (name, consumer) => {
  const warnings = warningsOf(consumer)
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toMatch(new RegExp(`${name}.*(Set it|Leave it)`))
})

test('a lease longer than the session gives a warning if leases are used', () => {
  const leased = { ...guard, hasLeases: true }
  expect(warningsOf({ sessionTimeout: 6_000 }, leased)[0]).toContain('leaseMs')
  expect(warningsOf({ sessionTimeout: 6_000 })).toEqual([])
})

const dead = {
  ...{ topic: 'orders.dead', retentionMs: DAY_MS, isCompacted: false, replicas: 1 },
  ...{ maxBytes: 1_048_588, minInSync: 1 },
}
const sources = [{ topic: 'orders', retentionMs: DAY_MS, isCompacted: false, maxBytes: 1_048_588 }]

test('a dead-letter topic with the settings of its source has no findings', () => {
  expect(deadLetterFindings(dead, sources)).toEqual({ problems: [], warnings: [] })
})

// Red when such a topic is found at the first dead letter: it is refused for ever, and holds up its key.
test.each([
  ['cleanup.policy', { isCompacted: true }],
  ['min.insync.replicas', { minInSync: 2 }],
  ['max.message.bytes', { maxBytes: 200 }],
])('a dead-letter topic that cannot take dead letters is refused by its %s', (name, change) => {
  const { problems } = deadLetterFindings({ ...dead, ...change }, sources)
  expect(problems).toHaveLength(1)
  expect(problems[0]).toContain(`(${name})`)
})

test('a dead-letter topic that takes smaller records than its source gives a warning', () => {
  const { problems, warnings } = deadLetterFindings({ ...dead, maxBytes: 100_000 }, sources)
  expect(problems).toEqual([])
  expect(warnings).toHaveLength(1)
})

test('reading records of aborted transactions is refused', () => {
  const resolved = resolveConsumerSettings(
    { topics: ['orders'], consumer: { readUncommitted: true } },
    guard,
  )
  expect(timeFindings(resolved, guard).problems).toHaveLength(1)
})
