import { bigint, integer, pgTable, text } from 'drizzle-orm/pg-core'

export const accounts = pgTable('accounts', {
  id: integer().primaryKey(),
  balance: bigint({ mode: 'number' }).notNull(),
})

// No unique keys: a second charge or receipt of an order would show.
export const charges = pgTable('charges', {
  orderId: text('order_id').notNull(),
  cents: integer().notNull(),
})

export const receipts = pgTable('receipts', { orderId: text('order_id').notNull() })
