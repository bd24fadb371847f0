import { handMadeGuard } from '@onceward/testing/adapter'
import type { ConsumerConfig } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import type { KafkaClient } from './client.ts'
import { deadLetterFindings, examine, timeFindings, topicFindings } from './doctor.ts'
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

describe('hundreds of topics', () => {
  const topics = Array.from({ length: 300 }, (_, index) => `orders-${index}`)

  /** Examines the topics in a cluster that has only these. */
  async function examined(
    present: readonly string[],
    denied: readonly string[] = [],
  ): Promise<{ requests: number; error: unknown }> {
    const { port } = handMadeGuard()
    let requests = 0
    const missing = Object.assign(new Error('gone'), { type: 'UNKNOWN_TOPIC_OR_PARTITION' })
    const refusal = Object.assign(new Error('no'), { type: 'TOPIC_AUTHORIZATION_FAILED' })
    const admin: object = {
      connect: async () => undefined,
      disconnect: async () => undefined,
      fetchTopicMetadata: async ({ topics: asked }: { topics: readonly string[] }) => {
        requests += 1
        if (asked.some((topic) => denied.includes(topic))) throw refusal
        if (!asked.every((topic) => present.includes(topic))) throw missing
      },
      fetchTopicOffsets: async () => [],
      describeConfigs: async () => ({ resources: [] }),
      describeGroups: async () => ({ groups: [] }),
    }
    const kafka = { admin: () => admin } as unknown as KafkaClient
    const settings = resolveConsumerSettings({ topics }, port.settings)
    const error = await examine({ kafka, settings, port }).catch((thrown: unknown) => thrown)
    return { requests, error }
  }

  // Red with a request for each: the start gives up after 20 s, which is 300 round trips of 67 ms, and tries again for ever.
  test('are asked for at once', async () => {
    expect(await examined(topics)).toEqual({ requests: 1, error: undefined })
  })

  test('are left to the consumer if this client may not describe them', async () => {
    const denied = ['orders-7', 'orders-77']
    const { error, requests } = await examined(topics, denied)
    expect(error).toBeUndefined()
    expect(requests).toBeLessThan(60)
  })

  test('are named if they are missing', async () => {
    const { error, requests } = await examined(topics.filter((topic) => topic !== 'orders-77'))
    expect(String(error)).toMatch(/^ConfigurationError: [^\n]*'orders-77', does not exist[^\n]*$/)
    expect(requests).toBeLessThan(30)
  })
})
