// @module-tag nightly

import { FatalError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { billing, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka, wrapKafka } from './index.ts'

describe.skipIf(skipped('kafka'))('one guard for topics of one name in two clusters', () => {
  const kits = [useKafka({}), useKafka({})] as const

  // Red when publishers are registered by the name of their topic alone: the poller takes the latest one.
  test('a dead letter that is replayed and dies again stays in its cluster', async ({ skip }) => {
    const [first, second] = kits
    skip(!first.server.canKill, 'both would be the server of the user')
    const [topic, dead] = [first.topics.name(), first.topics.name('dead')]
    for (const { topics } of kits) {
      for (const name of [topic, dead]) await topics.create(1, {}, name)
    }
    const inbox = memoryInbox()
    let runs = 0
    const guard = billing(
      () => {
        runs += 1
        throw new FatalError('no such order')
      },
      { inbox },
    )
    const consume = ({ topics }: (typeof kits)[number]) =>
      consumeKafka(topics.client(), guard, {
        topics: [topic],
        deadLetter: { producer: topics.producer, topic: dead },
      })
    await using _first = await consume(first)
    await using _second = await consume(second)
    const deadLetters = (): Promise<readonly number[]> =>
      Promise.all(
        kits.map(async ({ topics }) => {
          const [end] = await topics.admin.fetchTopicOffsets(dead)
          return Number(end?.high)
        }),
      )
    await first.topics.send(topic, ['one'])
    await first.topics.caughtUp(guard.consumer, topic)
    expect(await deadLetters()).toEqual([1, 0])
    // The confirmation is recorded a moment later.
    await until(() => inbox.deadLetters().some(({ ref }) => inbox.replay(ref)))
    await until(async () => runs === 2 && (await deadLetters()).join() !== '1,0')
    expect(await deadLetters()).toEqual([2, 0])
  })

  // Red when only topic, offset, headers and value identify a refused record: the first letter counts as that of both.
  test('refused records at the same offset have a dead letter in each cluster', async ({
    skip,
  }) => {
    const [first] = kits
    skip(!first.server.canKill, 'both would be the server of the user')
    const [topic, dead] = [first.topics.name(), first.topics.name('dead')]
    const guard = billing(() => undefined)
    for (const { topics } of kits) {
      for (const name of [topic, dead]) await topics.create(1, {}, name)
      await topics.producer.send({ topic, messages: [{ value: '{}' }] })
      const deadLetter = { producer: topics.producer, topic: dead }
      const consumption = await consumeKafka(topics.client(), guard, {
        topics: [topic],
        deadLetter,
      })
      await topics.caughtUp(guard.consumer, topic)
      await consumption.drain()
      const [end] = await topics.admin.fetchTopicOffsets(dead)
      expect(end?.high).toBe('1')
    }
  })

  // Red when the error says only that the topic is missing: the user sees it in the producer's cluster.
  test('a dead-letter topic that only the cluster of its producer has is refused, and a wrap uses it', async ({
    skip,
  }) => {
    const [first, second] = kits
    skip(!first.server.canKill, 'both would be the server of the user')
    const topic = await first.topics.create(1)
    const dead = await second.topics.create(1)
    const guard = billing(() => {
      throw new FatalError('no such order')
    })
    const deadLetter = { producer: second.topics.producer, topic: dead }
    const refused = consumeKafka(first.topics.client(), guard, { topics: [topic], deadLetter })
    await expect(refused).rejects.toThrow(
      /the cluster that is consumed.*another cluster.*wrapKafka/,
    )

    const consumer = first.topics.client().consumer({ groupId: guard.consumer })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    const wrapped = wrapKafka(consumer, guard, { deadLetter })
    await consumer.run(wrapped)
    await first.topics.send(topic, ['one'])
    await first.topics.caughtUp(guard.consumer, topic)
    await wrapped.consumption.drain()
    await consumer.disconnect()
    const [end] = await second.topics.admin.fetchTopicOffsets(dead)
    expect(end?.high).toBe('1')
  })
})
