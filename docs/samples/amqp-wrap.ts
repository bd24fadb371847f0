import { once } from 'node:events'
import { wrapAmqp } from '@onceward/amqp'
import { pgInbox } from '@onceward/postgres/pg'
import { connect } from 'amqplib'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createBilling(pgInbox(pool))
const connection = await connect(process.env.RABBITMQ_URL ?? '')
const channel = await connection.createConfirmChannel()
await channel.prefetch(24)
const { consumerTag } = await channel.consume(
  'orders',
  wrapAmqp(channel, billing, { queue: 'orders', prefetch: 24 }),
)

await once(process, 'SIGTERM')
await channel.cancel(consumerTag)
await billing.close()
await channel.close()
await connection.close()
await pool.end()
