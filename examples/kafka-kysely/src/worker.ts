import { drainOnSignals } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import { createBilling, type Database } from './billing.ts'
import { databaseUrl, kafka, topic } from './settings.ts'

console.log(`worker ${process.pid}`)

const pool = new Pool({ connectionString: databaseUrl, max: 10 })
const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
const billing = createBilling(db, 10)
const producer = kafka.producer()
await producer.connect()
const consumption = await consumeKafka(kafka, billing, {
  topics: [topic],
  // A new group begins with the oldest record.
  fromBeginning: true,
  deadLetter: { producer, topic: `${topic}.dead` },
  // Kafka gives the partitions of a killed worker to the next one after this time. The default is 30 s.
  consumer: { sessionTimeout: 10_000 },
})
// SIGTERM and Ctrl-C: running handlers end, and nothing new begins.
await drainOnSignals(consumption)
await billing.close()
await producer.disconnect()
await db.destroy()
