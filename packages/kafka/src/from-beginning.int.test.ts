// @module-tag nightly

import type { Guard } from '@onceward/core'
import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { type ConsumeKafkaOptions, consumeKafka } from './index.ts'

describe.skipIf(skipped('kafka'))('fromBeginning: false', () => {
  const kit = useKafka()
  const consumer = { metadataMaxAge: 500 }

  const setUp = () => {
    const ran: string[] = []
    const guard = billing(({ payload: { key } }) => void ran.push(key))
    const start = (topics: ConsumeKafkaOptions['topics']) =>
      consumeKafka(kit.topics.client(), guard, { topics, consumer, fromBeginning: false })
    return { ran, guard, start }
  }

  const sendTo = (topic: string, partition: number, key: string): Promise<void> =>
    kit.topics.sendAfresh(topic, [key], () => ({ partition }))

  const committedAll = ({ consumer: group }: Guard, topic: string): Promise<void> =>
    kit.topics.caughtUp(group, topic)

  // Red when kafkajs chooses the offset: it starts a partition that it discovers at the end.
  test('records of a partition that is added are read, whenever it is discovered', async () => {
    const topic = await kit.topics.create(1)
    await sendTo(topic, 0, 'before')
    const { ran, guard, start } = setUp()
    await using _ = await start([topic])
    for (const partition of [1, 2]) {
      await kit.topics.addPartitions(topic, partition + 1)
      await sendTo(topic, partition, `added-${partition}`)
      await until(() => ran.length === partition)
    }
    await sendTo(topic, 0, 'after')
    await committedAll(guard, topic)
    expect(ran).toEqual(['added-1', 'added-2', 'after'])
  })

  test('records of a topic that appears later and matches are read', async () => {
    const prefix = kit.topics.name('pattern')
    const { ran, guard, start } = setUp()
    const begun = await kit.topics.create(1, {}, `${prefix}-one`)
    await sendTo(begun, 0, 'before')
    await using _ = await start([new RegExp(`^${prefix}`)])
    const topic = await kit.topics.create(2, {}, `${prefix}-two`)
    await kit.topics.send(topic, range(10))
    await until(() => ran.length === 10)
    await committedAll(guard, topic)
    expect(ran.toSorted()).toEqual(range(10).toSorted())
  })

  test('a first topic that appears after the start is read from its beginning', async () => {
    const prefix = kit.topics.name('pattern')
    const { ran, start } = setUp()
    await using _ = await start([new RegExp(`^${prefix}`)])
    const topic = await kit.topics.create(1, {}, `${prefix}-one`)
    await kit.topics.send(topic, range(5))
    await until(() => ran.length === 5)
  })

  // Red when the start is not committed: a group that received nothing starts at the end again.
  test('what comes while the consumer is down is read, in old partitions, new ones and new topics', async () => {
    const prefix = kit.topics.name('pattern')
    const topic = await kit.topics.create(2, {}, `${prefix}-one`)
    await sendTo(topic, 0, 'before')
    const { ran, guard, start } = setUp()
    const pattern = new RegExp(`^${prefix}`)
    await (await start([pattern])).drain()
    expect(await kit.topics.committed(guard.consumer, topic)).toEqual([1, 0])
    await kit.topics.addPartitions(topic, 3)
    const other = await kit.topics.create(1, {}, `${prefix}-two`)
    for (const partition of [0, 1, 2]) await sendTo(topic, partition, `down-${partition}`)
    await sendTo(other, 0, 'down-3')
    await using _ = await start([pattern])
    await until(() => ran.length === 4)
    expect(ran.toSorted()).toEqual(range(4, 'down'))
  })

  test('a group with committed offsets continues at them, and skips nothing', async () => {
    const topic = await kit.topics.create(2)
    for (const partition of [0, 0, 1, 1]) await sendTo(topic, partition, `old-${partition}`)
    const { ran, guard, start } = setUp()
    const { consumer: groupId } = guard
    const partitions = [{ partition: 0, offset: '1' }]
    await kit.topics.admin.setOffsets({ groupId, topic, partitions })
    await using _ = await start([topic])
    await committedAll(guard, topic)
    expect(ran.toSorted()).toEqual(['old-0', 'old-1'])
  })

  // Red when −2, which kafkajs commits for an offset that fell out of the log before it reads on, counts as a place.
  test('a group whose offset fell out of the log skips nothing if its process ends before the next record is done', async () => {
    const topic = await kit.topics.create(1)
    const { ran, guard, start } = setUp()
    const { consumer: groupId } = guard
    await (await start([topic])).drain()
    for (const key of ['gone', 'oldest', 'newest']) await sendTo(topic, 0, key)
    const partitions = [{ partition: 0, offset: '1' }]
    await kit.topics.admin.deleteTopicRecords({ topic, partitions })
    const hanging = billing(() => new Promise(() => undefined), { consumer: groupId })
    const client = kit.topics.client()
    const stuck = await consumeKafka(client, hanging, {
      ...{ topics: [topic], consumer, fromBeginning: false, drainMs: 1 },
    })
    await until(() => stuck.health().inFlight > 0)
    await stuck.drain()
    expect(await kit.topics.committed(groupId, topic)).toEqual([1])
    await using _ = await start([topic])
    await committedAll(guard, topic)
    expect(ran).toEqual(['oldest', 'newest'])
  })

  test('members that start together agree on where the group starts', async () => {
    const topic = await kit.topics.create(6)
    for (let partition = 0; partition < 6; partition += 1) await sendTo(topic, partition, 'before')
    const { ran, guard, start } = setUp()
    const members = await Promise.all([start([topic]), start([topic]), start([topic])])
    try {
      for (let partition = 0; partition < 6; partition += 1) {
        await sendTo(topic, partition, `after-${partition}`)
      }
      await committedAll(guard, topic)
      expect(ran.toSorted()).toEqual(range(6, 'after'))
    } finally {
      await Promise.all(members.map((each) => each.drain()))
    }
  })
})
