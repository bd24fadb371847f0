import { createGuard, type Guard, type Inbox } from '@onceward/core'
import type { PoolClient } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

/** What `billing` needs of pg: a unit test gives a fake of this. */
export type Tx = Pick<PoolClient, 'query'>

export function createBilling(inbox: Inbox<Tx>): Guard {
  return createGuard(
    {
      consumer: 'billing',
      inbox,
      schema: OrderPlaced,
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, cents } }, { tx }) => {
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    },
  )
}
