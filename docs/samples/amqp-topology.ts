import { assertRetryTopology } from '@onceward/amqp'
import { connect } from 'amqplib'

const connection = await connect(process.env.RABBITMQ_URL ?? '')
const channel = await connection.createChannel()
await channel.assertQueue('orders')
const levels = await assertRetryTopology(
  channel,
  'orders',
  [1_000, 5_000, 30_000, 120_000, 300_000],
)
console.log(`declared: ${levels.join(', ')}`)
await connection.close()
