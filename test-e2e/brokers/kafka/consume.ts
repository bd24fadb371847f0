import type { Consumption, Guard } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { Kafka, logLevel } from 'kafkajs'
import type { DeliveryWatch } from '../broker.ts'
import { openClient } from './clients.ts'
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
  { client: name, connection, topic, groupId, deadTopic, sessionMs, identity }: KafkaSource,
  guard: Guard,
  { onReceive }: DeliveryWatch,
): Promise<Consumption> {
  const client = await openClient(name, connection, {
    ...{ clientId: 'worker', kafkajs: { retry: DEFAULT_RETRY } },
    onRecords: (values) => {
      for (const value of values) onReceive(orderOf(value))
    },
  })
  // The broker may be down when a worker starts, so the producer retries for long. The adapter configures the consumer.
  const patient = new Kafka({
    ...{ ...connection, clientId: 'worker', logLevel: logLevel.NOTHING },
    retry: { maxRetryTime: 1_000, retries: 1_000 },
  })
  const producer = patient.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  return consumeKafka(client as Kafka, guard, {
    topics: [topic],
    groupId,
    fromBeginning: true,
    identity,
    deadLetter: { producer, topic: deadTopic },
    consumer: { sessionTimeout: sessionMs },
    drainMs: 5_000,
  })
}

const orderOf = (value: Buffer | null): string => String(JSON.parse(String(value)).id)
