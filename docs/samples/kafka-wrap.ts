import { once } from 'node:events'
import { wrapKafka } from '@onceward/kafka'
import { pgInbox } from '@onceward/postgres/pg'
import { Kafka } from 'kafkajs'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createBilling(pgInbox(pool))
const kafka = new Kafka({ clientId: 'billing', brokers: [process.env.KAFKA_BROKER ?? ''] })
const consumer = kafka.consumer({ groupId: 'billing', maxWaitTimeInMs: 500 })
await consumer.connect()
await consumer.subscribe({ topics: ['orders'], fromBeginning: true })
const wrapped = wrapKafka(consumer, billing)
await consumer.run(wrapped)

await once(process, 'SIGTERM')
await wrapped.consumption.drain()
await consumer.disconnect()
await billing.close()
await pool.end()
