import { createGuard, type Guard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { Kysely, PostgresDialect } from 'kysely'
import type { PoolClient } from 'pg'
import { z } from 'zod'

interface Database {
  charges: { order_id: string; cents: number }
}

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

/** Kysely in the transaction of the guard, which begins and ends it. */
function kyselyIn(tx: PoolClient): Kysely<Database> {
  const client = { query: tx.query, release: () => undefined }
  const pool = { connect: async () => client, end: async () => undefined, options: {} }
  return new Kysely({ dialect: new PostgresDialect({ pool }) })
}

export const createBilling = (connectionString: string): Guard =>
  createGuard(
    {
      consumer: 'billing',
      inbox: pgInbox({ connectionString }),
      schema: OrderPlaced,
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, cents } }, { tx }) => {
      await kyselyIn(tx).insertInto('charges').values({ order_id: orderId, cents }).execute()
    },
  )
