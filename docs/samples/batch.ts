import { createBatchGuard, type Guard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

export function createBilling(pool: Pool): Guard {
  return createBatchGuard(
    {
      consumer: 'billing',
      inbox: pgInbox(pool),
      schema: OrderPlaced,
      eventKey: ({ payload }) => payload.orderId,
    },
    async (events, { tx }) => {
      const orders = events.map(({ payload }) => payload)
      await tx.query(
        'insert into charges (order_id, cents) select * from unnest($1::text[], $2::int[])',
        [orders.map(({ orderId }) => orderId), orders.map(({ cents }) => cents)],
      )
    },
  )
}
