import { drizzleInbox } from '@onceward/postgres/drizzle'
import { drizzle as onPg } from 'drizzle-orm/node-postgres'
import { integer, pgTable, uuid } from 'drizzle-orm/pg-core'
import { drizzle as onPostgresJs } from 'drizzle-orm/postgres-js'
import { Pool } from 'pg'
import postgres from 'postgres'
import type { Order } from '../load/effects.ts'
import type { OrmContestant } from './contestant.ts'

const effects = pgTable('effects', {
  orderId: uuid('order_id').notNull(),
  cents: integer().notNull(),
})
const handled = pgTable('handled', { id: uuid().primaryKey() })

type Database = Pick<ReturnType<typeof onPg>, 'insert'>

const write = (tx: Database, { orderId, cents }: Order): Promise<unknown> =>
  tx.insert(effects).values({ orderId, cents })

async function writeOnce(tx: Database, order: Order): Promise<void> {
  const mine = tx.insert(handled).values({ id: order.orderId }).onConflictDoNothing()
  if ((await mine.returning()).length === 1) await write(tx, order)
}

export const drizzleContestant: OrmContestant = {
  name: 'drizzle',
  connect: async (connectionString, max) => {
    const pool = new Pool({ connectionString, max, idleTimeoutMillis: 0 })
    const db = onPg(pool)
    return {
      inbox: drizzleInbox(db, { connectionString }),
      write: (tx, order) => write(tx as Database, order),
      byHand: (order) => db.transaction((tx) => writeOnce(tx, order)),
      close: () => pool.end(),
    }
  },
}

export const drizzlePostgresJsContestant: OrmContestant = {
  name: 'drizzle-postgres-js',
  connect: async (connectionString, max) => {
    const client = postgres(connectionString, { max })
    const db = onPostgresJs(client)
    return {
      inbox: drizzleInbox(db),
      write: (tx, order) => write(tx as Database, order),
      byHand: (order) => db.transaction((tx) => writeOnce(tx as unknown as Database, order)),
      close: () => client.end(),
    }
  },
}
