import { handMadeGuard } from '@onceward/testing/adapter'
import type { ConsumerConfig } from 'kafkajs'
import { expect, test } from 'vitest'
import { deadLetterFindings, timeFindings, topicFindings } from './doctor.ts'
import { resolveConsumerSettings } from './options.ts'

const DAY_MS = 86_400_000
const guard = handMadeGuard().port.settings

test.each([
  ['a week', { retentionMs: 7 * DAY_MS, isCompacted: false }, 'nothing'],
  ['the dedup window', { retentionMs: guard.dedupWindowMs, isCompacted: false }, 'nothing'],
  ['unknown', { retentionMs: undefined, isCompacted: false }, 'nothing'],
  ['a month', { retentionMs: 30 * DAY_MS, isCompacted: false }, 'problem'],
  ['for ever', { retentionMs: Number.POSITIVE_INFINITY, isCompacted: false }, 'warning'],
  ['the last of each key', { retentionMs: 30 * DAY_MS, isCompacted: true }, 'warning'],
])('acceptance A16: a topic that keeps records for %s gives a %s', (_what, facts, expected) => {
  const { problems, warnings } = topicFindings({ topic: 'orders', ...facts }, guard)
  const found = problems.length > 0 ? 'problem' : warnings.length > 0 ? 'warning' : 'nothing'
  expect(found).toBe(expected)
  expect([...problems, ...warnings].every((text) => text.includes('dedupWindowMs'))).toBe(true)
})

function warningsOf(consumer: Partial<ConsumerConfig>, settings = guard): readonly string[] {
  const resolved = resolveConsumerSettings({ topics: ['orders'], consumer }, settings)
  return timeFindings(resolved, settings).warnings
}

test.each<[string, Partial<ConsumerConfig>]>([
  ['heartbeatInterval', { heartbeatInterval: 3_334 }],
  ['maxWaitTimeInMs', { maxWaitTimeInMs: 3_334 }],
  ['retries', { retry: { retries: 4 } }],
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

// Less than the headers may need is refused, and less than a source takes gives a warning.
test.each<[number | undefined, number, string, string]>([
  [1_048_588, 1_048_588, 'nothing', ''],
  [1_048_587, 1_048_588, 'a warning', '1052684'],
  [4_096, 1_048_588, 'a warning', '1052684'],
  [4_095, 1_048_588, 'a problem', '1052684'],
  [4_096, 4_096, 'nothing', ''],
  [2_000, 2_000, 'nothing', ''],
  [1_999, 2_000, 'a problem', '6096'],
  [undefined, 1_048_588, 'nothing', ''],
])(
  'a dead-letter topic that takes %s bytes, of records with up to %s, gives %s',
  (maxBytes, largest, what, needed) => {
    const others = [
      { ...sources[0], maxBytes: undefined },
      { ...sources[0], maxBytes: largest },
    ]
    const { problems, warnings } = deadLetterFindings({ ...dead, maxBytes }, others as never)
    const counts = [problems.length, warnings.length]
    expect(counts).toEqual([Number(what === 'a problem'), Number(what === 'a warning')])
    for (const text of [...problems, ...warnings]) {
      expect(text).toContain(`takes records of at most ${maxBytes} bytes (max.message.bytes)`)
      expect(text).toMatch(new RegExp(`Set it to ${needed} or more\\.$`))
    }
  },
)

test('reading records of aborted transactions is refused', () => {
  const resolved = resolveConsumerSettings(
    { topics: ['orders'], consumer: { readUncommitted: true } },
    guard,
  )
  expect(timeFindings(resolved, guard).problems).toHaveLength(1)
})
