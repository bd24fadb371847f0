import { memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { onEvent } from './fixtures/topics.ts'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

describe.skipIf(skipped('kafka'))('topics that change while they are consumed', () => {
  const kit = useKafka()

  // Red without a look at the ids: kafkajs goes on at offset 5 and skips the first five of the new topic. A record in
  // hand pauses the partition, so that it does not meet the gap between the two by chance.
  test('K23: a topic that is deleted and created again is read from its beginning', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    await topics.send(topic, range(5, 'old'))
    const ran: string[] = []
    const release = Promise.withResolvers<void>()
    const guard = billing(async ({ payload: { key } }) => {
      if (key === 'old-4') await release.promise
      ran.push(key)
    })
    await using consumption = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await until(() => ran.length === 4)
    await topics.recreate(topic)
    await until(() => topics.send(topic, range(8, 'new')).then(() => true))
    release.resolve()
    await until(() => ran.length === 13)
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual([...range(8, 'new'), ...range(5, 'old')].toSorted())
    await until(() => consumption.health().state === 'running')
  })

  // Red when the group keeps the offset that was committed at the old position: the next owner starts there.
  test('K23: a member that takes over a topic that is being read anew skips none of its records', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    await topics.send(topic, range(5, 'old'))
    const ran: string[] = []
    const release = Promise.withResolvers<void>()
    const inbox = memoryInbox()
    // Waits at least a moment, and never dies before the second consumer has started.
    const retry = { attempts: 1_000, baseMs: 50, maxMs: 500 }
    const first = billing(
      async ({ payload: { key } }) => {
        if (key === 'old-4') await release.promise
        if (key === 'new-0') throw new Error('not yet')
        ran.push(key)
      },
      { inbox, retry },
    )
    const consumption = await consumeKafka(topics.client(), first, { topics: [topic] })
    await until(() => ran.length === 4)
    await topics.recreate(topic)
    await until(() => topics.send(topic, range(8, 'new')).then(() => true))
    release.resolve()
    await until(() => ran.length === 12)
    await consumption.drain()
    const { consumer } = first
    const second = billing(({ payload: { key } }) => void ran.push(key), { consumer, inbox, retry })
    await using _ = await consumeKafka(topics.client(), second, { topics: [topic] })
    await until(() => ran.length === 13)
    expect(ran.toSorted()).toEqual([...range(8, 'new'), ...range(5, 'old')].toSorted())
  })

  // Red when the patterns are matched once: kafkajs never looks again.
  test('K18: a topic that appears later is consumed if it matches a pattern', async () => {
    const { topics } = kit
    const prefix = topics.name('pattern')
    await topics.create(1, {}, `${prefix}-one`)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using _ = await consumeKafka(topics.client(), guard, {
      topics: [new RegExp(`^${prefix}`)],
    })
    await topics.send(`${prefix}-one`, ['first'])
    await until(() => ran.length === 1)
    await topics.create(1, {}, `${prefix}-two`)
    await topics.send(`${prefix}-two`, ['second'])
    await topics.send(`${prefix}-one`, ['third'])
    await until(() => ran.length === 3)
    expect(ran.toSorted()).toEqual(['first', 'second', 'third'])
  })

  // Red when every consumer subscribes to the deleted topic: kafkajs refuses the whole subscription.
  test('a deleted topic ends only its own consumption, and is consumed again once it is created again', async () => {
    const { topics } = kit
    const [kept, deleted] = [await topics.create(1), await topics.create(1)]
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using consumption = await consumeKafka(topics.client(), guard, {
      topics: [kept, deleted],
    })
    await topics.sendAfresh(deleted, range(3, 'old'))
    await until(() => ran.length === 3)
    await topics.admin.deleteTopics({ topics: [deleted] })
    await until(() => consumption.health().reason?.includes(deleted) === true)
    await topics.send(kept, range(3, 'kept'))
    await until(() => ran.length === 6)
    expect(consumption.health()).toMatchObject({ state: 'running' })
    await until(() => topics.create(1, {}, deleted).then(() => true))
    await topics.sendAfresh(deleted, range(5, 'new'))
    await until(() => ran.length === 11)
    await until(() => consumption.health().reason === undefined)
    expect(ran.slice(6)).toEqual(range(5, 'new'))
  })

  test('a consumer whose only topic was deleted waits for it', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using consumption = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.admin.deleteTopics({ topics: [topic] })
    await until(() => consumption.health().state === 'recovering')
    await until(() => consumption.health().reason?.includes(topic) === true)
    await until(() => topics.create(1, {}, topic).then(() => true))
    await topics.sendAfresh(topic, ['new'])
    await until(() => ran.length === 1)
    await until(() => consumption.health().state === 'running')
  })

  test('added partitions are consumed', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const client = topics.client()
    const crashes: unknown[] = []
    onEvent(client, 'CRASH', (event) => void crashes.push(event))
    await using _ = await consumeKafka(client, guard, {
      topics: [topic],
      consumer: { metadataMaxAge: 1_000 },
    })
    await topics.addPartitions(topic, 3)
    await topics.sendAfresh(topic, ['added'], () => ({ partition: 2 }))
    await until(() => ran.length === 1)
    expect(crashes).toEqual([])
  })
})
