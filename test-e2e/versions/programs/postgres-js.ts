import { migrate } from '@onceward/postgres'
import { postgresJsInbox } from '@onceward/postgres/postgres-js'
import pg from 'pg'
import postgres, { type TransactionSql } from 'postgres'
import { env } from './env.ts'
import { proveInbox } from './support.ts'

const connectionString = env('DATABASE_URL')
const pool = new pg.Pool({ connectionString, max: 2 })
await migrate(pool)
await pool.query('create table charges (order_id text)')
const sql = postgres(connectionString, { max: 12 })

await proveInbox({
  inbox: postgresJsInbox(sql),
  write: async (tx: TransactionSql, orderId) => {
    await tx.savepoint((inner) => inner`insert into charges (order_id) values (${orderId})`)
  },
  run: async (tx, statement) => {
    await tx.unsafe(statement)
  },
  charged: async () => {
    const rows = await sql<{ order_id: string }[]>`select * from charges order by order_id`
    return rows.map(({ order_id }) => order_id).join()
  },
})
// Without a limit it waits for ever after a connection was lost inside of a transaction.
await sql.end({ timeout: 1 })
await pool.end()
console.log('proved')
