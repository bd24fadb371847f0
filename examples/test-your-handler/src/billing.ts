import { createGuard, FatalError, type Guard, type Inbox } from '@onceward/core'
import type { PoolClient } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

/** What the handler needs of pg: the unit test gives a fake of this, and nothing else. */
export type Tx = Pick<PoolClient, 'query'>

/** A function, not a constant: the tests give it an inbox of their own. */
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
      if (cents < 0) throw new FatalError('a charge is never negative')
    },
  )
}
