import { kafkaBroker, type Places } from '@onceward/nestjs'
import { Kafka, logLevel } from 'kafkajs'
import type { NestConsumer } from '../broker.ts'
import type { KafkaSource } from './queue.ts'

export async function nestConsumerOf(source: KafkaSource): Promise<NestConsumer> {
  const { connection, deadTopic, groupId, sessionMs, topic } = source
  const kafka = new Kafka({ ...connection, clientId: 'nest', logLevel: logLevel.NOTHING })
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  const place: Places['kafka'] = {
    ...{
      topics: [topic],
      groupId,
      fromBeginning: true,
      deadLetter: { producer, topic: deadTopic },
    },
  }
  const broker = kafkaBroker(kafka, { consumer: { sessionTimeout: sessionMs } })
  return { broker, place, close: () => producer.disconnect() }
}
