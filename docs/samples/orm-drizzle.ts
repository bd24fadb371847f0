import { createGuard, type Guard } from '@onceward/core'
import { drizzleInbox } from '@onceward/postgres/drizzle'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'

const charges = pgTable('charges', { orderId: text('order_id'), cents: integer() })
const connectionString = process.env.DATABASE_URL ?? ''
const db = drizzle(connectionString)

export const billing: Guard = createGuard(
  { consumer: 'billing', inbox: drizzleInbox(db, { connectionString }) },
  async ({ key }, { tx }) => {
    await tx.insert(charges).values({ orderId: key, cents: 100 })
  },
)
