import { createGuard, FatalError, type Guard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import type { Redis } from 'ioredis'
import type { Pool } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), accountId: z.int(), cents: z.int() })

export function createBilling(pool: Pool, redis: Redis): Guard {
  return createGuard(
    {
      consumer: 'billing',
      inbox: pgInbox(pool),
      // Spares Postgres the copies. It may lose everything: the row in Postgres decides.
      leases: redisLeases(redis),
      // An order that a killed worker had in hand is free after this time. The default is 30 s.
      leaseMs: 10_000,
      schema: OrderPlaced,
      // Two messages with the same key are one event. A copy has another message id, but the same order.
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, accountId, cents } }, { tx, logger }) => {
      const charged = await tx.query('update accounts set balance = balance - $1 where id = $2', [
        cents,
        accountId,
      ])
      // Trying again would not help: to the dead letters, at once.
      if (charged.rowCount === 0) throw new FatalError(`no account ${accountId}`)
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
      logger.info({ orderId }, 'charged')
    },
  )
}
