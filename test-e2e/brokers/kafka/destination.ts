import type { Destination } from '@onceward/core'
import { kafkaDestination } from '@onceward/kafka'
import { Kafka, logLevel } from 'kafkajs'
import type { KafkaSource } from './queue.ts'

export async function destinationOf({ connection, topic }: KafkaSource): Promise<Destination> {
  const client = new Kafka({ ...connection, clientId: 'relay', logLevel: logLevel.NOTHING })
  const producer = client.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  return { ...kafkaDestination(producer, { topic }), close: () => producer.disconnect() }
}
