import { ConfigurationError } from '@onceward/core'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { skipped } from '@onceward/testing/servers'
import { Kafka, logLevel } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { onEvent } from './fixtures/topics.ts'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

describe.skipIf(skipped('kafka'))('the checks of consumeKafka at its start', () => {
  const kit = useKafka({
    settings: {
      'group.max.session.timeout.ms': '20000',
      // As by default, where it is 3 s: members that start together are in the first generation together.
      'group.initial.rebalance.delay.ms': '1000',
    },
  })

  test('K24: a session timeout that the broker refuses is a configuration error', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const starting = consumeKafka(
      topics.client(),
      billing(() => undefined),
      {
        topics: [topic],
        consumer: { sessionTimeout: 30_000 },
      },
    )
    await expect(starting).rejects.toThrow(ConfigurationError)
    await expect(starting).rejects.toThrow(/sessionTimeout|session timeout/i)
  })

  test.each([
    [
      'a topic',
      (topic: string) => ({ topics: [topic, 'no-such-topic'] }),
      /`topics`, 'no-such-topic'/,
    ],
    [
      'the dead-letter topic',
      (topic: string) => ({
        topics: [topic],
        deadLetter: { producer: { send: async () => [] }, topic: 'no-such-dead' },
      }),
      /`deadLetter.topic`, 'no-such-dead'/,
    ],
  ])(
    'K24: the start fails with the name of %s that does not exist',
    async (_what, optionsOf, problem) => {
      const { topics } = kit
      const topic = await topics.create(1)
      const starting = consumeKafka(
        topics.client(),
        billing(() => undefined),
        optionsOf(topic),
      )
      await expect(starting).rejects.toThrow(problem)
    },
  )

  test('acceptance A16: the start fails for a topic that keeps records longer than the dedup window', async () => {
    const { topics } = kit
    const topic = await topics.create(1, { 'retention.ms': String(30 * 86_400_000) })
    const starting = consumeKafka(
      topics.client(),
      billing(() => undefined),
      { topics: [topic] },
    )
    await expect(starting).rejects.toThrow(/dedupWindowMs/)
  })

  // Red without the check of the group: the second consumer takes half of the partitions.
  test('trap T39: the start fails if another consumer uses the same group', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const groupId = topics.name('shared')
    const ours = guardOf(() => undefined, { consumer: 'billing' })
    const theirs = guardOf(() => undefined, { consumer: 'shipping' })
    await using _ = await consumeKafka(topics.client(), ours, { topics: [topic], groupId })
    const starting = consumeKafka(topics.client(), theirs, { topics: [topic], groupId })
    await expect(starting).rejects.toThrow(/has members of the consumer 'billing'/)
    await using _second = await consumeKafka(topics.client(), ours, { topics: [topic], groupId })
  })

  // Red with the check before the start alone: both find an empty group, and each takes half of the partitions.
  test('trap T39: of two consumers that start in one group at the same time, one fails and the other gets all', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const groupId = topics.name('shared')
    const ran: string[] = []
    const starts = await Promise.allSettled(
      ['billing', 'shipping'].map((consumer) => {
        const guard = billing(({ payload: { key } }) => void ran.push(key), { consumer })
        return consumeKafka(topics.client(), guard, { topics: [topic], groupId })
      }),
    )
    const errors = starts.flatMap((start) => (start.status === 'rejected' ? [start.reason] : []))
    expect(errors).toMatchObject([{ code: 'ONCEWARD_CONFIGURATION' }])
    expect(String(errors)).toContain('has members of the consumer')
    await topics.send(topic, range(10))
    await until(() => ran.length === 10)
    for (const start of starts) if (start.status === 'fulfilled') await start.value.drain()
  })

  // Red when it disconnects at once: kafkajs joins all the same, and keeps the partition while the process lives.
  test('a consumer that is drained while it joins its group leaves it', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const groupId = topics.name('drained')
    const client = topics.client()
    const joined = Promise.withResolvers<void>()
    onEvent(client, 'GROUP_JOIN', () => joined.resolve())
    const stop = new AbortController()
    const starting = consumeKafka(
      client,
      billing(() => undefined),
      { topics: [topic], groupId, signal: stop.signal },
    )
    // The broker answers its first member only after a second.
    await until(async () => (await topics.members(groupId)) === 1)
    stop.abort()
    const consumption = await starting
    await consumption.stopped
    await joined.promise
    await until(async () => (await topics.members(groupId)) === 0)
  })

  test('the consumer waits for an endpoint that is down at the start', async () => {
    const client = new Kafka({
      brokers: ['127.0.0.1:1'],
      logLevel: logLevel.NOTHING,
      retry: { retries: 0 },
    })
    const consumption = await consumeKafka(
      client,
      billing(() => undefined),
      { topics: ['orders'] },
    )
    expect(consumption.health()).toMatchObject({ state: 'recovering' })
    expect(consumption.health().reason).toMatch(/Connection/)
    await consumption.drain()
    await consumption.stopped
  })
})
