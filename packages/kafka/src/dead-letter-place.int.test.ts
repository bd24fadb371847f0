import { FatalError } from '@onceward/core'
import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { ConfigResourceTypes } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

describe.skipIf(skipped('kafka'))(
  'consumeKafka with a dead-letter topic that takes nothing',
  () => {
    const kit = useKafka()

    // Red when a dead letter that waits for its topic stops the other records of its partition, or other partitions.
    test('NOT_ENOUGH_REPLICAS: the dead records of one partition stop no other record, and go out later', async () => {
      const { topics } = kit
      const topic = await topics.create(2)
      // One replica is all there is, so no record is ever in sync on two.
      const dead = await topics.create(1, { 'min.insync.replicas': '2' })
      const setLeast = (value: string): Promise<unknown> => {
        const configEntries = [{ name: 'min.insync.replicas', value }]
        const type = ConfigResourceTypes.TOPIC
        const resources = [{ type, name: dead, configEntries }]
        return topics.admin.alterConfigs({ validateOnly: false, resources })
      }
      const effects: string[] = []
      const guard = billing(({ key }) => {
        if (key.startsWith('dead')) throw new FatalError('no such order')
        effects.push(key)
      })
      const keys = [...range(6, 'dead'), ...range(30, 'same'), ...range(30, 'other')]
      await topics.send(topic, keys, (key) => ({ partition: key.startsWith('other') ? 1 : 0 }))
      await using consumption = await consumeKafka(topics.client(), guard, {
        topics: [topic],
        deadLetter: { producer: topics.producer, topic: dead },
      })
      await until(() => effects.length === 60, { deadlineMs: 30_000 })
      await until(async () => (await topics.committed(guard.consumer, topic))[1] === 30)
      expect(consumption.health().state).toBe('running')
      expect((await topics.committed(guard.consumer, topic))[0]).toBeLessThan(6)

      await setLeast('1')
      await topics.caughtUp(guard.consumer, topic)
      const letters = await topics.read(dead, 6)
      const ids = letters.map(({ headers }) => String(headers?.['x-onceward-event-id']))
      expect(new Set(ids).size).toBe(6)
      expect(effects.toSorted()).toEqual([...range(30, 'other'), ...range(30, 'same')].toSorted())
    }, 180_000)
  },
)
