import { once } from 'node:events'
import { type ConsumeMessage, connect } from 'amqplib'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const connection = await connect(process.env.RABBITMQ_URL ?? '')
const channel = await connection.createChannel()
await channel.prefetch(24)
const charge = async (message: ConsumeMessage): Promise<void> => {
  const { orderId, cents } = JSON.parse(message.content.toString())
  await pool.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  channel.ack(message)
}
await channel.consume('orders', (message) => {
  if (message !== null) void charge(message)
})

await once(process, 'SIGTERM')
await connection.close()
await pool.end()
