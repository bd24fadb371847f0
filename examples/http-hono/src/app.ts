import { createHttpGuard, type HttpGuard, HttpProblem } from '@onceward/http'
import { honoRoute } from '@onceward/http/hono'
import { pgInbox } from '@onceward/postgres/pg'
import { Hono } from 'hono'
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
      // With `store` the refusal is the answer: a retry gets it again. Any other error leaves the key free.
      if (cents > 100_000)
        throw new HttpProblem({ status: 402, title: 'card declined', store: true })
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
      return { status: 201, body: { orderId, charged: cents } }
    },
  )
}

export const createApp = (charges: HttpGuard): Hono =>
  new Hono().post('/charges', honoRoute(charges))
