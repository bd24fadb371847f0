import type { Consumption, Guard } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { Kafka, logLevel } from 'kafkajs'
import type { DeliveryWatch } from '../broker.ts'
import type { KafkaSource } from './queue.ts'

/** The defaults of kafkajs. It has shorter ones if `NODE_ENV` is `test`, as it is here (brokers.md K25). */
const DEFAULT_RETRY = {
  initialRetryTime: 300,
  maxRetryTime: 30_000,
  factor: 0.2,
  multiplier: 2,
  retries: 5,
}

export async function consume(
  { connection, topic, groupId, deadTopic, sessionMs }: KafkaSource,
  guard: Guard,
  watch: DeliveryWatch,
): Promise<Consumption> {
  const quiet = { ...connection, clientId: 'worker', logLevel: logLevel.NOTHING }
  const client = new Kafka({ ...quiet, retry: DEFAULT_RETRY })
  watchBatches(client, watch)
  // The broker may be down when a worker starts, so the producer retries for long. The adapter configures the consumer.
  const patient = new Kafka({ ...quiet, retry: { maxRetryTime: 1_000, retries: 1_000 } })
  const producer = patient.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  return consumeKafka(client, guard, {
    topics: [topic],
    groupId,
    fromBeginning: true,
    deadLetter: { producer, topic: deadTopic },
    consumer: { sessionTimeout: sessionMs },
    drainMs: 5_000,
  })
}

/** Watches what the client passes to the adapter, because the adapter has no hook for tests. */
function watchBatches(client: Kafka, { onReceive }: DeliveryWatch): void {
  const consumerOf = client.consumer.bind(client)
  client.consumer = (config) => {
    const consumer = consumerOf(config)
    const run = consumer.run.bind(consumer)
    consumer.run = ({ eachBatch, ...rest } = {}) =>
      run({
        ...rest,
        eachBatch: async (payload) => {
          for (const { value } of payload.batch.messages) onReceive(orderOf(value))
          await eachBatch?.(payload)
        },
      })
    return consumer
  }
}

const orderOf = (value: Buffer | null): string => String(JSON.parse(String(value)).id)
