import { migrate } from '@onceward/postgres'
import { knexInbox } from '@onceward/postgres/knex'
import createKnex, { type Knex } from 'knex'
import pg from 'pg'
import { env } from './env.ts'
import { proveInbox } from './support.ts'

const connectionString = env('DATABASE_URL')
const pool = new pg.Pool({ connectionString, max: 2 })
await migrate(pool)
await pool.query('create table charges (order_id text)')
const knex = createKnex({ client: 'pg', connection: connectionString, pool: { min: 0, max: 12 } })

await proveInbox({
  inbox: knexInbox(knex, { connectionString }),
  write: async (tx: Knex.Transaction, order_id) => {
    await tx.transaction(async (inner) => {
      await inner('charges').insert({ order_id })
    })
  },
  run: async (tx, sql) => {
    await tx.raw(sql)
  },
  charged: async () => {
    const rows: { order_id: string }[] = await knex('charges').orderBy('order_id')
    return rows.map(({ order_id }) => order_id).join()
  },
})
await knex.destroy()
await pool.end()
console.log('proved')
