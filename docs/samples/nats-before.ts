import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const servers = process.env.NATS_URL ?? 'nats://127.0.0.1:4222'
const connection = await connect({ servers, maxReconnectAttempts: -1 })
const stream = process.env.STREAM ?? 'ORDERS'

const consumer = await jetstream(connection).consumers.get(stream, 'billing')
const messages = await consumer.consume({ max_messages: 8 })
process.once('SIGTERM', () => messages.stop())
for await (const message of messages) {
  const { orderId, cents } = message.json<{ orderId: string; cents: number }>()
  await pool.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  await message.ackAck()
}
await pool.end()
await connection.close()
