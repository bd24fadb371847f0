import { createGuard, drainOnSignals, FatalError } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeStream } from '@onceward/redis-streams'
import { Redis } from 'ioredis'
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

const redis = new Redis(process.env.REDIS_URL ?? '')
const stream = process.env.STREAM ?? 'orders'
const consumption = await consumeStream(redis, billing, {
  stream,
  deadLetter: { stream: `${stream}.dead` },
  keepEntries: false,
})
await drainOnSignals(consumption)
await billing.close()
await pool.end()
redis.disconnect()
