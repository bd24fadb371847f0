import { ConfigurationError } from '@onceward/core'
import { handMadeGuard, type Logged } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { examine } from './doctor.ts'
import { clusterOf, type HandMadeCluster, type TopicInCluster } from './fixtures/cluster.ts'
import { protocolError } from './fixtures/fetch.ts'
import { type ConsumeKafkaOptions, resolveConsumerSettings } from './options.ts'

const DAY_MS = 86_400_000
/** Kept longer than the dedup window, so that the problem names the topic. */
const long = { settings: { 'retention.ms': String(30 * DAY_MS) } }
const deadLetter = { producer: { send: async () => [] }, topic: 'orders.dead' }

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
  const error = await examine({ kafka, settings, port }).catch((thrown: unknown) => thrown)
  const problems = error instanceof ConfigurationError ? error.message.split('\n') : []
  return { error, problems, logged }
}

const wellDone: Examined = { error: undefined, problems: [], logged: [] }
/** The topics whose retention was read and found too long. */
const tooLong = ({ problems }: Examined): readonly string[] =>
  problems.flatMap((text) => /^Topic '(.*)' keeps records/.exec(text)?.[1] ?? []).toSorted()

test('a topic with nothing wrong has no findings, and the broker is asked only for what is needed', async () => {
  const cluster = clusterOf({ orders: {} })
  expect(await examined(cluster)).toEqual(wellDone)
  const configNames = [
    ...['retention.ms', 'cleanup.policy', 'max.message.bytes', 'min.insync.replicas'],
  ]
  const resources = [{ type: 2, name: 'orders', configNames }]
  expect(cluster.asked).toEqual([
    ['connect'],
    ['fetchTopicMetadata', ['orders']],
    ['describeConfigs', { resources, includeSynonyms: false }],
    ['disconnect'],
  ])
})

describe('the settings of a topic, as the broker writes them', () => {
  test.each<[string, TopicInCluster['settings'], 'nothing' | 'a problem' | 'a warning']>([
    ['none', {}, 'nothing'],
    ['a retention of a week', { 'retention.ms': String(7 * DAY_MS) }, 'nothing'],
    ['a retention of a month', long.settings, 'a problem'],
    ['no retention', { 'retention.ms': '-1' }, 'a warning'],
    ['the shortest retention', { 'retention.ms': '0' }, 'nothing'],
    ['a retention that is no number', { 'retention.ms': 'long' }, 'nothing'],
    ['deletion', { ...long.settings, 'cleanup.policy': 'delete' }, 'a problem'],
    ['compaction', { 'max.message.bytes': '9', 'cleanup.policy': 'compact' }, 'a warning'],
    ['both', { ...long.settings, 'cleanup.policy': 'compact,delete' }, 'a warning'],
  ])('%s: %s gives %s', async (_what, settings = {}, expected) => {
    const { error, logged, problems } = await examined(clusterOf({ orders: { settings } }))
    expect(error === undefined).toBe(expected !== 'a problem')
    expect(problems).toHaveLength(Number(expected === 'a problem'))
    const finding = expect.stringMatching(/^Topic 'orders' keeps records for ever/)
    expect(logged).toEqual(
      expected === 'a warning'
        ? [expect.objectContaining({ level: 'warn', fields: { group: 'billing', finding } })]
        : [],
    )
  })

  // Red when a limit is read from another setting, or from the topic that is consumed.
  test.each<[string, TopicInCluster, RegExp]>([
    ['compaction', { settings: { 'cleanup.policy': 'compact' } }, /'orders\.dead' is compacted/],
    [
      'fewer replicas than it needs',
      { replicas: [3, 1, 2], settings: { 'min.insync.replicas': '2' } },
      /'orders\.dead' has 1 replicas and needs 2 in sync/,
    ],
    [
      'room for no headers',
      { settings: { 'max.message.bytes': '200' } },
      /'orders\.dead' takes records of at most 200 bytes.* Set it to 1004096 or more/,
    ],
  ])('of dead letters: %s is a problem', async (_what, dead, problem) => {
    const limits = { 'max.message.bytes': '1000000', 'min.insync.replicas': '1' }
    const orders = { replicas: [5], settings: limits }
    const cluster = clusterOf({ orders, 'orders.dead': dead })
    const found = await examined(cluster, { deadLetter })
    expect(found.problems).toEqual([expect.stringMatching(problem)])
  })

  // Red with the replicas of all topics: another one has fewer.
  test('of dead letters that fit have no findings', async () => {
    const dead = { replicas: [3, 2], settings: { 'min.insync.replicas': '2' } }
    const cluster = clusterOf({ orders: { replicas: [1] }, 'orders.dead': dead })
    expect(await examined(cluster, { deadLetter })).toEqual(wellDone)
  })

  test.each(['x', 'undefined'])(
    'of dead letters that are no numbers (%s) have no findings',
    async (text) => {
      const dead = { settings: { 'max.message.bytes': text, 'min.insync.replicas': text } }
      const orders = { settings: { 'max.message.bytes': '1000000' } }
      const cluster = clusterOf({ orders, 'orders.dead': dead })
      expect(await examined(cluster, { deadLetter })).toEqual(wellDone)
    },
  )
})

describe('topics of patterns', () => {
  const topics = ['refunds', /^orders/g]
  const present = { 'orders-1': long, 'orders-2': long, refunds: long, others: long }

  test.each([true, false])(
    'are those that are there: kafkajs gives its cluster: %s',
    async (has) => {
      const cluster = clusterOf(present)
      cluster.hasCluster = has
      expect(tooLong(await examined(cluster, { topics }))).toEqual([
        'orders-1',
        'orders-2',
        'refunds',
      ])
      // Fails while a single partition in the cluster has no leader, so it is the last resort.
      expect(cluster.asked.some(([name]) => name === 'listTopics')).toBe(!has)
      expect(cluster.asked).toContainEqual(['consumer.disconnect'])
    },
  )

  test('may not be there yet', async () => {
    expect(await examined(clusterOf({ others: long }), { topics: [/^orders/] })).toEqual(wellDone)
  })
})

describe('topics that are missing', () => {
  test('are all named, with what to do', async () => {
    const { problems } = await examined(clusterOf({ orders: {} }), {
      ...{ topics: ['orders', 'nowhere'], deadLetter },
    })
    expect(problems).toEqual([
      expect.stringMatching(/^The topic of `topics`, 'nowhere', does not exist.* Create it/),
      expect.stringMatching(
        /^The topic of `deadLetter\.topic`, 'orders\.dead', does not exist.* another cluster, use `wrapKafka`/,
      ),
    ])
  })
})

describe('what this client may not do', () => {
  const reason = expect.stringContaining('AUTHORIZATION_FAILED')
  const unread = (topics: readonly string[]) => ({
    level: 'warn',
    fields: { topics, reason, fix: 'allow DescribeConfigs on these topics' },
    text: 'the topics could not be checked',
  })

  test('describe one of its topics: the others are checked', async () => {
    const cluster = clusterOf({ orders: long, secret: { denied: 'describe' }, refunds: long })
    const found = await examined(cluster, { topics: ['orders', 'secret', 'refunds'] })
    expect(tooLong(found)).toEqual(['orders', 'refunds'])
  })

  test('describe any of its topics: the consumer says so later', async () => {
    const cluster = clusterOf({ orders: { denied: 'describe' } })
    expect(await examined(cluster)).toEqual(wellDone)
  })

  test('read the settings of its topics: a warning names the right, and the rest is checked', async () => {
    const cluster = clusterOf({ orders: { denied: 'configs' } })
    cluster.members.set('billing', ['mail'])
    const { logged, problems } = await examined(cluster)
    expect(problems).toEqual([expect.stringContaining("has members of the consumer 'mail'")])
    expect(logged).toEqual([unread(['orders'])])
  })

  // Its producer may belong to another client, which has the rights.
  test.each(['describe', 'configs'] as const)('%s the dead-letter topic', async (denied) => {
    const cluster = clusterOf({ orders: {}, 'orders.dead': { denied } })
    const logged = [unread(['orders.dead'])]
    expect(await examined(cluster, { deadLetter })).toEqual({ ...wellDone, logged })
  })

  test('look at its group', async () => {
    const cluster = clusterOf({ others: {} })
    cluster.refusal = protocolError('GROUP_AUTHORIZATION_FAILED')
    const fields = { group: 'shared', reason, fix: 'allow Describe on this group' }
    const logged = [{ level: 'warn', fields, text: 'the group could not be checked' }]
    const options = { topics: [/^orders/], groupId: 'shared' }
    expect(await examined(cluster, options)).toEqual({ ...wellDone, logged })
  })
})

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
