import { consumeKafka } from '@onceward/kafka'
import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import { createBilling, type Database } from './billing.ts'
import { databaseUrl, kafka, topic } from './settings.ts'

console.log(`worker ${process.pid}`)
const stop = new AbortController()
for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort())

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
  signal: stop.signal,
})
await consumption.stopped
await billing.close()
await producer.disconnect()
await db.destroy()
