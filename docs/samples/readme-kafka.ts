import { createGuard } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { pgInbox } from '@onceward/postgres/pg'
import { Kafka } from 'kafkajs'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const charge = 'insert into charges select * from json_populate_record(null::charges, $1)'
const billing = createGuard({ consumer: 'billing', inbox }, async ({ payload }, { tx }) => {
  await tx.query(charge, [payload])
})
const kafka = new Kafka({ brokers: [process.env.KAFKA_BROKER ?? ''] })
await consumeKafka(kafka, billing, { topics: ['orders'] })
