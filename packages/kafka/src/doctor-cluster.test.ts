import { ConfigurationError } from '@onceward/core'
import { handMadeGuard, type Logged } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { kafkajsClient } from './clients/kafkajs/index.ts'
import { examine } from './doctor.ts'
import { clusterOf, type HandMadeCluster } from './fixtures/cluster.ts'
import { protocolError } from './fixtures/fetch.ts'
import { type ConsumeKafkaOptions, resolveConsumerSettings } from './options.ts'

const DAY_MS = 86_400_000
/** Kept longer than the dedup window, so that the problem names the topic. */
const long = { settings: { 'retention.ms': String(30 * DAY_MS) } }

interface Examined {
  readonly error: unknown
  /** Lines of the error. */
  readonly problems: readonly string[]
  readonly logged: readonly Logged[]
}

async function examined(
  { kafka }: HandMadeCluster,
  options: Partial<ConsumeKafkaOptions> = {},
): Promise<Examined> {
  const { logged, port } = handMadeGuard()
  const settings = resolveConsumerSettings({ topics: ['orders'], ...options }, port.settings)
  const error = await examine({ client: kafkajsClient(kafka), settings, port }).catch(
    (thrown: unknown) => thrown,
  )
  const problems = error instanceof ConfigurationError ? error.message.split('\n') : []
  return { error, problems, logged }
}

const wellDone: Examined = { error: undefined, problems: [], logged: [] }

// Red when every failed request counts as a missing right: the consumer would start unchecked.
test.each([[['orders']], [[/^nothing/]]])(
  'a broker that goes away in the check of %s fails it',
  async (topics) => {
    const cluster = clusterOf({ orders: long })
    cluster.refusal = protocolError('NETWORK_EXCEPTION')
    expect(await examined(cluster, { topics })).toEqual({ ...wellDone, error: cluster.refusal })
  },
)

describe('the members of the group', () => {
  test('of another consumer are a problem that names it and the group', async () => {
    const cluster = clusterOf({ orders: {} })
    cluster.members.set('shared', ['billing', 'mail', 'mail', 'audit'])
    const { problems } = await examined(cluster, { groupId: 'shared' })
    expect(problems).toEqual([
      expect.stringMatching(
        /^Group 'shared' has members of the consumer 'mail', 'audit'; as another one, 'billing'.* Leave `groupId` out/,
      ),
    ])
  })

  test('of the same consumer, or of another group, are none', async () => {
    const cluster = clusterOf({ orders: {} })
    cluster.members.set('billing', ['billing']).set('shared', ['mail'])
    expect(await examined(cluster)).toEqual(wellDone)
  })
})

describe('hundreds of topics', () => {
  const topics = Array.from({ length: 300 }, (_, index) => `orders-${index}`)

  /** Examines the topics in a cluster that has only these. */
  async function among(
    present: readonly string[],
    denied: readonly string[] = [],
  ): Promise<{ requests: number; error: unknown }> {
    const cluster = clusterOf(
      Object.fromEntries(
        present.map((topic) => [topic, denied.includes(topic) ? { denied: 'describe' } : {}]),
      ),
    )
    const { error } = await examined(cluster, { topics })
    const requests = cluster.asked.filter(([name]) => name === 'fetchTopicMetadata').length
    return { requests, error }
  }

  // Red with a request for each: the start gives up after 20 s, which is 300 round trips of 67 ms, and tries again for ever.
  test('are asked for at once', async () => {
    expect(await among(topics)).toEqual({ requests: 1, error: undefined })
  })

  test('are left to the consumer if this client may not describe them', async () => {
    const { error, requests } = await among(topics, ['orders-7', 'orders-77'])
    expect(error).toBeUndefined()
    expect(requests).toBeLessThan(60)
  })

  test('are named if they are missing', async () => {
    const { error, requests } = await among(topics.filter((topic) => topic !== 'orders-77'))
    expect(String(error)).toMatch(/^ConfigurationError: [^\n]*'orders-77', does not exist[^\n]*$/)
    expect(requests).toBeLessThan(30)
  })
})
