import { createGuard, type Guard, type Inbox } from '@onceward/core'
import { drizzle as onPg } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import { drizzle as onPostgresJs } from 'drizzle-orm/postgres-js'
import createKnex, { type Knex } from 'knex'
import postgres, { type TransactionSql } from 'postgres'
import { drizzleInbox } from './drizzle.ts'
import { knexInbox } from './knex.ts'
import { postgresJsInbox } from './postgres-js.ts'

const charges = pgTable('charges', { orderId: text('order_id').notNull(), cents: integer() })
const schema = { charges }
const connectionString = 'postgres://127.0.0.1/app'
const consumer = 'billing'

/** Compiled, never run: the handler's `tx` is the transaction of the user's own database, with its schema. */
export function handlersOfDrizzle(): readonly Guard[] {
  const db = onPg(connectionString, { schema })
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0]
  const inbox: Inbox<Tx> = drizzleInbox(db, { connectionString })
  const overJs = onPostgresJs(postgres(connectionString), { schema })
  return [
    createGuard({ consumer, inbox }, async ({ key }, { tx }) => {
      await tx.insert(charges).values({ orderId: key, cents: 1 })
      const found = await tx.query.charges.findFirst()
      const cents: number | null | undefined = found?.cents
      // @ts-expect-error: the schema has no such column
      void found?.amount
      // @ts-expect-error: an order id is a text
      await tx.insert(charges).values({ orderId: 1 })
      await tx.transaction((inner) =>
        inner.insert(charges).values({ orderId: key, cents: cents ?? 0 }),
      )
    }),
    createGuard({ consumer, inbox: drizzleInbox(overJs) }, async (_, { tx }) => {
      const rows: { orderId: string; cents: number | null }[] = await tx.select().from(charges)
      return rows.length
    }),
  ]
}

interface Charge {
  order_id: string
  cents: number
}

export function handlersOfKnex(): readonly Guard[] {
  const knex = createKnex({ client: 'pg', connection: connectionString })
  const typed = createKnex<Charge, Charge[]>({ client: 'pg', connection: connectionString })
  const inbox: Inbox<Knex.Transaction> = knexInbox(knex, { connectionString })
  return [
    createGuard({ consumer, inbox }, async ({ key }, { tx }) => {
      await tx<Charge>('charges').insert({ order_id: key, cents: 1 })
      // @ts-expect-error: an order id is a text
      await tx<Charge>('charges').insert({ order_id: 1 })
      await tx.transaction((inner) => inner<Charge>('charges').where({ order_id: key }).delete())
    }),
    createGuard({ consumer, inbox: knexInbox(typed, { connectionString }) }, async (_, { tx }) => {
      const rows: Charge[] = await tx('charges').select()
      return rows.length
    }),
  ]
}

export function handlersOfPostgresJs(): Guard {
  const sql = postgres(connectionString)
  const inbox: Inbox<TransactionSql> = postgresJsInbox(sql)
  return createGuard({ consumer, inbox }, async ({ key }, { tx }) => {
    const [charge] = await tx<Charge[]>`select order_id, cents from charges where order_id = ${key}`
    const cents: number | undefined = charge?.cents
    // @ts-expect-error: the row has no such column
    void charge?.amount
    await tx.savepoint((inner) => inner`update charges set cents = ${cents ?? 0}`)
  })
}

// @ts-expect-error: no database of Drizzle
drizzleInbox(postgres(connectionString))
// @ts-expect-error: the connection for the guard's own statements is missing
knexInbox(createKnex({ client: 'pg' }))
