import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'

const Order = z.object({ orderId: z.string() })

/** A supplier that may be busy with one order, or with everybody. */
export const createPurchases = (pool: Pool, supplier: string) =>
  createGuard(
    { consumer: 'purchases', inbox: pgInbox(pool), schema: Order },
    async ({ payload: { orderId } }, { tx, signal, defer, pauseFor }) => {
      const response = await fetch(`${supplier}/orders/${orderId}`, { method: 'PUT', signal })
      if (response.status === 409) defer(30_000) // not yet: this event alone
      if (response.status === 429) pauseFor(1_000 * Number(response.headers.get('retry-after')))
      await tx.query('insert into purchases (order_id) values ($1)', [orderId])
    },
  )
