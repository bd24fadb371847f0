import { createGuard, type Seal } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'

const Order = z.object({ orderId: z.string(), iban: z.string(), cents: z.number() })

export const createBilling = (pool: Pool, seal: Seal) =>
  createGuard(
    {
      consumer: 'billing',
      inbox: pgInbox(pool),
      schema: Order,
      eventKey: ({ payload }) => payload.orderId,
      seal,
    },
    async ({ payload: { orderId, iban, cents } }, { outbox, tx }) => {
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
      outbox.send({ to: 'bank', key: orderId, payload: { orderId, iban, cents } })
      return { charged: cents }
    },
  )
