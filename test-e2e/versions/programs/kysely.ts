import { migrate } from '@onceward/postgres'
import { kyselyInbox } from '@onceward/postgres/kysely'
import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { env } from './env.ts'
import { proveInbox } from './support.ts'

interface Database {
  charges: { order_id: string }
}

const pool = new pg.Pool({ connectionString: env('DATABASE_URL'), max: 12 })
const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
await migrate(pool)
await pool.query('create table charges (order_id text)')

await proveInbox({
  inbox: kyselyInbox(db, { poolSize: 12 }),
  write: (tx: Transaction<Database>, order_id) =>
    tx.insertInto('charges').values({ order_id }).execute(),
  run: (tx, sql) => tx.executeQuery(CompiledQuery.raw(sql)),
  charged: async () => {
    const rows = await db.selectFrom('charges').selectAll().orderBy('order_id').execute()
    return rows.map(({ order_id }) => order_id).join()
  },
})
await db.destroy()
console.log('proved')
