import { createGuard, FatalError, type Guard } from '@onceward/core'
import { drizzleInbox } from '@onceward/postgres/drizzle'
import { eq, sql } from 'drizzle-orm'
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import { z } from 'zod'
import { accounts, charges, receipts } from './schema.ts'
import { databaseUrl } from './settings.ts'

const OrderPlaced = z.object({ orderId: z.string(), accountId: z.int(), cents: z.int() })

/** Charges an order, and sends its receipt in the same commit. */
export function createBilling(db: NodePgDatabase): Guard {
  return createGuard(
    {
      consumer: 'billing',
      inbox: drizzleInbox(db, { connectionString: databaseUrl }),
      schema: OrderPlaced,
      // Two messages with the same key are one event. A copy has another message id, but the same order.
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, accountId, cents } }, { tx, outbox, logger }) => {
      const charged = await tx
        .update(accounts)
        .set({ balance: sql`${accounts.balance} - ${cents}` })
        .where(eq(accounts.id, accountId))
      // Trying again would not help: to the dead letters, at once.
      if (charged.rowCount === 0) throw new FatalError(`no account ${accountId}`)
      await tx.insert(charges).values({ orderId, cents })
      // The receipt leaves if the charge is there, and not otherwise.
      outbox.send({ to: 'receipts', key: orderId, payload: { orderId } })
      logger.info({ orderId }, 'charged')
    },
  )
}

const Receipt = z.object({ orderId: z.string() })

/** Stands for the service that gets the receipts. A relay that dies may publish one twice: its id is the event key. */
export function createReceipts(db: NodePgDatabase): Guard {
  return createGuard(
    {
      consumer: 'receipts',
      inbox: drizzleInbox(db, { connectionString: databaseUrl }),
      schema: Receipt,
    },
    async ({ payload: { orderId } }, { tx }) => {
      await tx.insert(receipts).values({ orderId })
    },
  )
}
