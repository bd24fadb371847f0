// @module-tag nightly

import { createRequire } from 'node:module'
import type { OutgoingMessage } from '@onceward/core'
import { skipped } from '@onceward/testing/servers'
import { Producer } from '@platformatic/kafka'
import { describe, expect, test } from 'vitest'
import { isConfluentBuilt } from '../fixtures/confluent-built.ts'
import { range, useKafka } from '../fixtures/use-kafka.ts'
import { kafkaDestination } from './destination.ts'
import type { KafkaProducer } from './producers.ts'

const require = createRequire(import.meta.url)

interface Connected {
  readonly producer: KafkaProducer
  readonly close: () => Promise<unknown>
}

describe.skipIf(skipped('kafka'))('a topic as a destination', () => {
  const kit = useKafka()

  const kafkajs = async (idempotent: boolean): Promise<Connected> => {
    const producer = kit.topics.client().producer({ idempotent })
    await producer.connect()
    return { producer, close: () => producer.disconnect() }
  }
  const PRODUCERS: Readonly<Record<string, () => Promise<Connected>>> = {
    kafkajs: () => kafkajs(false),
    'kafkajs, idempotent': () => kafkajs(true),
    platformatic: async () => {
      const bootstrapBrokers = [...kit.server.connection.brokers]
      const producer = new Producer({ clientId: 'relay', bootstrapBrokers })
      return { producer, close: () => producer.close() }
    },
    ...(isConfluentBuilt() && {
      confluent: async () => {
        const { KafkaJS } = require('@confluentinc/kafka-javascript')
        const { brokers } = kit.server.connection
        const producer = new KafkaJS.Kafka({ kafkaJS: { brokers, logLevel: 0 } }).producer()
        await producer.connect()
        return { producer, close: () => producer.disconnect() }
      },
    }),
  }

  const outgoing = (id: string, over: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
    ...{ id, key: 'k', source: 'billing', type: 'paid', headers: {}, contentType: 'text/plain' },
    ...{ payload: Buffer.from(id), ...over },
  })
  const signal = new AbortController().signal

  describe.each(Object.entries(PRODUCERS))('with a producer of %s', (name, connect) => {
    // Red before: the producers of kafkajs that are idempotent were out of order for ever.
    test('takes twelve messages of 100 KB for one partition, in their order', async () => {
      const { close, producer } = await connect()
      const topic = await kit.topics.create()
      const { publish } = kafkaDestination(producer, { topic })
      const payload = Buffer.alloc(100_000, 'a')
      for (const round of ['first', 'second']) {
        const messages = range(12, round).map((id) => outgoing(id, { payload }))
        expect(await publish(messages, signal)).toEqual(messages.map(() => undefined))
      }
      const records = await kit.topics.read(topic, 24)
      const ids = records.map(({ headers }) => String(headers?.['idempotency-key']))
      expect(ids).toEqual([...range(12, 'first'), ...range(12, 'second')])
      await close()
    })

    // An idempotent producer of kafkajs does not recover from it, as the documents say.
    test.skipIf(name === 'kafkajs, idempotent')(
      'refuses a message without a key for a compacted topic, and takes the others',
      async () => {
        const { close, producer } = await connect()
        const topic = await kit.topics.create(1, { 'cleanup.policy': 'compact' })
        const { publish } = kafkaDestination(producer, { topic })
        const ids = range(41)
        const messages = ids.map((id, at) => outgoing(id, { key: at === 7 ? undefined : id }))
        const refused = { refused: expect.objectContaining({ message: expect.any(String) }) }
        expect(await publish(messages, signal)).toEqual(
          ids.map((_, at) => (at === 7 ? refused : undefined)),
        )
        expect(await publish([outgoing('later')], signal)).toEqual([undefined])
        const records = await kit.topics.read(topic, 41)
        const sent = records.map(({ headers }) => String(headers?.['idempotency-key']))
        expect(new Set(sent)).toEqual(new Set([...ids.filter((_, at) => at !== 7), 'later']))
        await close()
      },
    )
  })
})
