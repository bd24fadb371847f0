import { amqpDestination, consumeAmqp } from '@onceward/amqp'
import { drainOnSignals } from '@onceward/core'
import { startRelay } from '@onceward/postgres/outbox'
import { connect } from 'amqplib'
import { drizzle } from 'drizzle-orm/node-postgres'
import { Pool } from 'pg'
import { createBilling, createReceipts } from './billing.ts'
import { databaseUrl, queue, rabbitUrl, receiptsQueue } from './settings.ts'

console.log(`worker ${process.pid}`)

const pool = new Pool({ connectionString: databaseUrl, max: 25 })
const db = drizzle(pool)
const billing = createBilling(db)
const receipts = createReceipts(db)
// A function: after a lost connection it is called again.
const open = () => connect(rabbitUrl)

// Publishes what handlers have sent, once it is committed.
const relay = await startRelay({
  connectionString: databaseUrl,
  destinations: {
    receipts: amqpDestination(open, { exchange: '', routingKey: receiptsQueue }),
  },
})
const consumptions = [
  await consumeAmqp(open, billing, { queue, deadLetter: { queue: `${queue}.dead` } }),
  await consumeAmqp(open, receipts, {
    queue: receiptsQueue,
    deadLetter: { queue: `${receiptsQueue}.dead` },
  }),
]
// SIGTERM and Ctrl-C: running handlers end, and nothing new begins. Messages that are not published yet stay in the table.
await drainOnSignals(consumptions)
await relay.drain()
await Promise.all([billing.close(), receipts.close()])
await pool.end()
