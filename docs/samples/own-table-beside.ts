import { createGuard, type Guard, type Inbox } from '@onceward/core'
import type { PoolClient } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

/** The guarded consumer, while workers of the old release run or their messages may come back. */
export function createBilling(inbox: Inbox<PoolClient>): Guard {
  return createGuard(
    {
      consumer: 'billing',
      inbox,
      schema: OrderPlaced,
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, cents } }, { tx }) => {
      const mark = 'insert into processed_orders (order_id) values ($1) on conflict do nothing'
      const { rowCount } = await tx.query(mark, [orderId])
      // The old consumer has charged it. The guard remembers the event from now on.
      if (rowCount === 0) return
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    },
  )
}
