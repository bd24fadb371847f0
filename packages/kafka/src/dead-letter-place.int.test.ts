// @module-tag nightly

import { FatalError } from '@onceward/core'
import { kafkaCluster, skipped, until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { Topics } from './fixtures/topics.ts'
import { billing, range } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

// Red when a dead letter that waits for its topic stops the other records of its partition, or other partitions.
test.skipIf(skipped('kafka'))(
  'NOT_ENOUGH_REPLICAS: the dead records of one partition stop no other record, and are published later',
  async () => {
    await using cluster = await kafkaCluster()
    await using topics = await Topics.connect(cluster.connection)
    const topic = await topics.create(2)
    const dead = topics.name('dead')
    const replicaAssignment = [{ partition: 0, replicas: [2, 3] }]
    const configEntries = [{ name: 'min.insync.replicas', value: '2' }]
    await topics.add({ topic: dead, replicaAssignment, configEntries })
    const inSync = async (of: string): Promise<number> => {
      const { topics: found } = await topics.admin.fetchTopicMetadata({ topics: [of] })
      return found[0]?.partitions[0]?.isr.length ?? 0
    }
    await until(async () => (await inSync(dead)) === 2 && (await inSync(topic)) === 3)
    // The topic of the dead letters needs both of its replicas.
    await cluster.nodes[2]?.kill('SIGKILL')
    await until(async () => (await inSync(dead)) === 1, { deadlineMs: 60_000 })

    const effects: string[] = []
    const failures: string[] = []
    const guard = billing(({ payload: { key } }) => {
      if (!key.startsWith('dead')) return void effects.push(key)
      failures.push(key)
      throw new FatalError('no such order')
    })
    const keys = [...range(6, 'dead'), ...range(30, 'same'), ...range(30, 'other')]
    await topics.send(topic, keys, (key) => ({ partition: key.startsWith('other') ? 1 : 0 }))
    await using consumption = await consumeKafka(topics.client(), guard, {
      topics: [topic],
      deadLetter: { producer: topics.producer, topic: dead },
    })
    await until(() => effects.length === 60 && failures.length === 6, { deadlineMs: 60_000 })
    await until(async () => (await topics.committed(guard.consumer, topic))[1] === 30)
    expect(consumption.health().state).toBe('running')
    const [committed] = await until(() => topics.committed(guard.consumer, topic))
    expect(committed).toBeLessThan(6)

    await cluster.nodes[2]?.restart()
    await topics.caughtUp(guard.consumer, topic)
    const deadLetters = await topics.read(dead, 6)
    const ids = deadLetters.map(({ headers }) => String(headers?.['x-onceward-event-id']))
    expect(new Set(ids).size).toBe(6)
    expect(effects.toSorted()).toEqual([...range(30, 'other'), ...range(30, 'same')].toSorted())
    expect(failures).toHaveLength(6)
  },
  240_000,
)
