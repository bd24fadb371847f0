import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'

const charges = pgTable('charges', { orderId: text('order_id'), cents: integer() })

/** Twice for an event that is delivered twice. */
export async function charge(db: NodePgDatabase, orderId: string): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.insert(charges).values({ orderId, cents: 100 })
  })
}
