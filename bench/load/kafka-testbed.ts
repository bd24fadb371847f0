import type { KafkaConnection } from '@onceward/testing/servers'
import { Kafka, logLevel } from 'kafkajs'
import { Pool } from 'pg'
import { CONCURRENCY } from '../runner/rounds.ts'
import type { Stopwatch } from '../runner/stopwatch.ts'
import { toDelivery } from './effects.ts'

const PARTITIONS = 4

/** A database, and topics that are filled once and read by many groups. */
export interface Testbed extends AsyncDisposable {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly connection: KafkaConnection
  readonly kafka: Kafka
  /** A topic with that many events. Consumers of another name read it again as if it were new. */
  topicOf(events: number): Promise<string>
}

export async function openTestbed(
  databaseUrl: string,
  connection: KafkaConnection,
): Promise<Testbed> {
  const pool = new Pool({ connectionString: databaseUrl, max: CONCURRENCY })
  pool.on('error', () => undefined)
  const client = new Kafka({ brokers: connection.brokers, logLevel: logLevel.NOTHING })
  const topics = new Map<number, Promise<string>>()
  return {
    pool,
    databaseUrl,
    connection,
    kafka: client,
    topicOf: (events) => {
      const topic = topics.get(events) ?? filledTopic(client, events)
      topics.set(events, topic)
      return topic
    },
    [Symbol.asyncDispose]: () => pool.end(),
  }
}

async function filledTopic(client: Kafka, events: number): Promise<string> {
  const topic = `bench-${events}`
  const admin = client.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] })
  await admin.disconnect()
  const producer = client.producer()
  await producer.connect()
  for (let sent = 0; sent < events; sent += 1_000) {
    const messages = Array.from({ length: Math.min(1_000, events - sent) }, () => {
      const { body, headers } = toDelivery()
      const key = headers['idempotency-key'] ?? ''
      return { key, value: Buffer.from(body), headers: { 'idempotency-key': key } }
    })
    await producer.send({ topic, messages })
  }
  await producer.disconnect()
  return topic
}

export const unique = (): string => `bench-${crypto.randomUUID()}`

/** The same client, whose consumers report their first batch. */
export function watched(client: Kafka, watch: Stopwatch): Kafka {
  const watching = Object.create(client) as Kafka
  watching.consumer = (config) => {
    const consumer = client.consumer(config)
    consumer.on(consumer.events.START_BATCH_PROCESS, () => watch.start())
    return consumer
  }
  return watching
}
