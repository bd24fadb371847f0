// @module-tag nightly

import { createRequire } from 'node:module'
import { FatalError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { isConfluentBuilt } from '../../fixtures/confluent-built.ts'
import { billing, useKafka } from '../../fixtures/use-kafka.ts'
import { consumeKafka, kafkaDestination, wrapKafka } from '../../index.ts'
import { confluent } from './index.ts'

const require = createRequire(import.meta.url)

describe.skipIf(skipped('kafka') || !isConfluentBuilt())('the compatible client', () => {
  const kit = useKafka()
  const compatible = () => {
    const { KafkaJS } = require('@confluentinc/kafka-javascript')
    return new KafkaJS.Kafka({ kafkaJS: { brokers: kit.server.connection.brokers, logLevel: 0 } })
  }

  // Red before: it passed for kafkajs, and its errors for a broker that is down.
  test('is refused by name, and so are its consumers', async () => {
    const { guard } = handMadeGuard()
    const client = compatible()
    const refusal = {
      code: 'ONCEWARD_CONFIGURATION',
      message: expect.stringContaining('confluent({'),
    }
    await expect(consumeKafka(client, guard, { topics: ['orders'] })).rejects.toMatchObject(refusal)
    const consumer = client.consumer({ kafkaJS: { groupId: 'billing' } })
    expect(() => wrapKafka(consumer, guard)).toThrow(expect.objectContaining(refusal))
  })

  test('its producer sends dead letters and messages of the outbox', async () => {
    const { topics } = kit
    const [topic, dead] = [await topics.create(), await topics.create(1, {}, topics.name('dead'))]
    await topics.send(topic, ['poison'])
    const producer = compatible().producer()
    await producer.connect()
    const guard = billing(() => {
      throw new FatalError('not payable')
    })
    const client = confluent({ 'bootstrap.servers': kit.server.connection.brokers.join() })
    {
      await using _ = await consumeKafka(client, guard, {
        topics: [topic],
        deadLetter: { producer, topic: dead },
      })
      await topics.caughtUp(guard.consumer, topic)
    }
    const message = { id: '1', key: 'k', headers: { a: 'b' }, payload: Buffer.from('{}') }
    await kafkaDestination(producer, { topic: dead }).publish(
      [message as never],
      AbortSignal.timeout(10_000),
    )
    const [letter, sent] = await topics.read(dead, 2)
    expect([String(letter?.value), String(sent?.key)]).toEqual(['{"key":"poison"}', 'k'])
    await producer.disconnect()
  })
})
