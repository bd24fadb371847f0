import { createGuard, type Guard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import type { Redis } from 'ioredis'
import type { Pool } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

export function createBilling(pool: Pool, redis: Redis): Guard {
  return createGuard(
    {
      consumer: 'billing',
      inbox: pgInbox(pool),
      leases: redisLeases(redis),
      schema: OrderPlaced,
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, cents } }, { tx }) => {
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    },
  )
}
