import { Kafka } from 'kafkajs'

/** The defaults are the servers of compose.yaml. */
export const databaseUrl: string =
  process.env.DATABASE_URL ?? 'postgres://postgres:onceward@127.0.0.1:15432/postgres'

export const kafka: Kafka = new Kafka({
  clientId: 'billing',
  brokers: (process.env.KAFKA_BROKERS ?? '127.0.0.1:19092').split(','),
})
export const topic: string = process.env.TOPIC ?? 'orders'
export const receipts: string = `${topic}.receipts`
