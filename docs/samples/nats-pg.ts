import { connect } from '@nats-io/transport-node'
import { createGuard, drainOnSignals, FatalError } from '@onceward/core'
import { consumeNats } from '@onceward/nats'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), accountId: z.int(), cents: z.int() })

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createGuard(
  {
    consumer: 'billing',
    inbox: pgInbox(pool),
    schema: OrderPlaced,
    eventKey: ({ payload }) => payload.orderId,
  },
  async ({ payload: order }, { tx, logger }) => {
    const charged = await tx.query(
      'update accounts set balance = balance - $1 where id = $2 returning balance',
      [order.cents, order.accountId],
    )
    if (charged.rowCount === 0) throw new FatalError(`no account ${order.accountId}`)
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [
      order.orderId,
      order.cents,
    ])
    logger.info({ orderId: order.orderId }, 'charged')
  },
)

const servers = process.env.NATS_URL ?? 'nats://127.0.0.1:4222'
const connection = await connect({ servers, maxReconnectAttempts: -1 })
const stream = process.env.STREAM ?? 'ORDERS'
const consumption = await consumeNats(connection, billing, {
  stream,
  consumer: 'billing',
  deadLetter: { subject: `dead.${stream}` },
})
await drainOnSignals(consumption)
await billing.close()
await pool.end()
await connection.close()
