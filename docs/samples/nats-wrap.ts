import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { wrapNats } from '@onceward/nats'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createBilling(pgInbox(pool))
const servers = process.env.NATS_URL ?? 'nats://127.0.0.1:4222'
const connection = await connect({ servers, maxReconnectAttempts: -1 })
const stream = process.env.STREAM ?? 'ORDERS'

const handle = wrapNats(connection, billing, { stream, consumer: 'billing' })
const consumer = await jetstream(connection).consumers.get(stream, 'billing')
const messages = await consumer.consume({ max_messages: 8 })
process.once('SIGTERM', () => messages.stop())
for await (const message of messages) void handle(message)

await handle.consumption.drain()
await billing.close()
await pool.end()
await connection.close()
