import { createHttpGuard, type HttpGuard } from '@onceward/http'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'

const Charge = z.object({ orderId: z.string(), cents: z.int() })

export function createCharges(pool: Pool): HttpGuard {
  return createHttpGuard(
    {
      consumer: 'charges.create',
      inbox: pgInbox(pool),
      schema: Charge,
      // Whose key it is. Take it from your authentication: two callers may choose the same key.
      tenant: ({ headers }) => headers.get('x-account') ?? undefined,
    },
    async ({ payload: { orderId, cents } }, { tx }) => {
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
      return { status: 201, body: { orderId, charged: cents } }
    },
  )
}
