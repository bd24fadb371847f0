import { createGuard, FatalError, type Guard } from '@onceward/core'
import { kyselyInbox } from '@onceward/postgres/kysely'
import type { Kysely } from 'kysely'
import { z } from 'zod'

export interface Database {
  accounts: { id: number; balance: string }
  charges: { order_id: string; cents: number }
}

const OrderPlaced = z.object({ orderId: z.string(), accountId: z.int(), cents: z.int() })

/** @param poolSize - Connections of the pool: Kysely does not tell. */
export function createBilling(db: Kysely<Database>, poolSize: number): Guard {
  return createGuard(
    {
      consumer: 'billing',
      inbox: kyselyInbox(db, { poolSize }),
      schema: OrderPlaced,
      // Two records with the same order are the same event: a copy has another offset, but not another order.
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, accountId, cents } }, { tx, logger }) => {
      const { numUpdatedRows } = await tx
        .updateTable('accounts')
        .set((eb) => ({ balance: eb('balance', '-', String(cents)) }))
        .where('id', '=', accountId)
        .executeTakeFirst()
      // Trying again would not help: to the dead letters, at once.
      if (numUpdatedRows === 0n) throw new FatalError(`no account ${accountId}`)
      await tx.insertInto('charges').values({ order_id: orderId, cents }).execute()
      logger.info({ orderId }, 'charged')
    },
  )
}
