import { once } from 'node:events'
import { Kafka } from 'kafkajs'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const kafka = new Kafka({ clientId: 'billing', brokers: [process.env.KAFKA_BROKER ?? ''] })
const consumer = kafka.consumer({ groupId: 'billing' })
await consumer.connect()
await consumer.subscribe({ topics: ['orders'], fromBeginning: true })
await consumer.run({
  eachMessage: async ({ message }) => {
    const { orderId, cents } = JSON.parse(String(message.value))
    await pool.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  },
})

await once(process, 'SIGTERM')
await consumer.disconnect()
await pool.end()
