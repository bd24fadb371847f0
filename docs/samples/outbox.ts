import { amqpDestination, consumeAmqp } from '@onceward/amqp'
import { createGuard, drainOnSignals } from '@onceward/core'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { connect } from 'amqplib'
import { Pool } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })
const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const open = () => connect(process.env.RABBITMQ_URL ?? '')

const billing = createGuard(
  {
    consumer: 'billing',
    inbox: pgInbox(pool),
    schema: OrderPlaced,
    eventKey: ({ payload }) => payload.orderId,
  },
  async ({ payload: { orderId, cents } }, { tx, outbox }) => {
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    // Part of the commit: the receipt is sent if the charge is there, and not otherwise.
    outbox.send({ to: 'receipts', key: orderId, payload: { orderId, cents } })
  },
)

// Publishes what was committed, to each destination by the name that `to` has.
const receipts = amqpDestination(open, { exchange: '', routingKey: 'receipts' })
const relay = await startRelay({ pool, destinations: { receipts } })
const orders = await consumeAmqp(open, billing, {
  queue: 'orders',
  deadLetter: { queue: 'orders.dead' },
})

// At SIGTERM: first nothing more is received, then nothing more is published, then the connections close.
// Messages that are committed and not published yet stay in the table, for the next relay.
await drainOnSignals(orders)
await relay.drain()
await billing.close()
await pool.end()
