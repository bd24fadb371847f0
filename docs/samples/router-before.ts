import { createGuard, type Guard, type Inbox } from '@onceward/core'
import type { PoolClient } from 'pg'
import { z } from 'zod'

const Placed = z.object({ orderId: z.string(), cents: z.int() })
const Cancelled = z.object({ orderId: z.string() })

export function createOrders(inbox: Inbox<PoolClient>): Guard {
  return createGuard({ consumer: 'orders', inbox }, async ({ headers, payload }, { tx }) => {
    switch (headers['x-type']) {
      case 'order.placed': {
        const { orderId, cents } = Placed.parse(payload)
        await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
        break
      }
      case 'order.cancelled': {
        const { orderId } = Cancelled.parse(payload)
        await tx.query('delete from charges where order_id = $1', [orderId])
        break
      }
      default:
        // Acknowledged, and lost.
        break
    }
  })
}
