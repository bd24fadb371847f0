import { migrate } from '@onceward/postgres'
import { type DrizzleTransactionOf, drizzleInbox } from '@onceward/postgres/drizzle'
import { asc, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import pg from 'pg'
import { env } from './env.ts'
import { proveInbox } from './support.ts'

const charges = pgTable('charges', { orderId: text('order_id') })
const connectionString = env('DATABASE_URL')
const pool = new pg.Pool({ connectionString, max: 12 })
await migrate(pool)
await pool.query('create table charges (order_id text)')
const db = drizzle(pool)

await proveInbox({
  inbox: drizzleInbox(db, { connectionString }),
  write: async (tx: DrizzleTransactionOf<typeof db>, orderId) => {
    await tx.transaction(async (inner) => {
      await inner.insert(charges).values({ orderId })
    })
  },
  run: async (tx, statement) => {
    await tx.execute(sql.raw(statement))
  },
  charged: async () => {
    const rows = await db.select().from(charges).orderBy(asc(charges.orderId))
    return rows.map(({ orderId }) => orderId).join()
  },
})
await pool.end()
console.log('proved')
