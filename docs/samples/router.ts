import { createGuard, type Guard, header, type Inbox } from '@onceward/core'
import type { PoolClient } from 'pg'
import { z } from 'zod'

const Placed = z.object({ orderId: z.string(), cents: z.int() })
const Cancelled = z.object({ orderId: z.string() })

export function createOrders(inbox: Inbox<PoolClient>): Guard {
  return createGuard({
    consumer: 'orders',
    inbox,
    type: header('x-type'),
    on: {
      'order.placed': {
        schema: Placed,
        handler: async ({ payload: { orderId, cents } }, { tx }) => {
          await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
        },
      },
      'order.cancelled': {
        schema: Cancelled,
        retry: { attempts: 3 },
        handler: async ({ payload: { orderId } }, { tx }) => {
          await tx.query('delete from charges where order_id = $1', [orderId])
        },
      },
    },
  })
}
