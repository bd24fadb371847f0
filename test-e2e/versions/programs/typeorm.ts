import { migrate } from '@onceward/postgres'
import { typeormInbox } from '@onceward/postgres/typeorm'
import pg from 'pg'
import { DataSource, type EntityManager, EntitySchema } from 'typeorm'
import { env } from './env.ts'
import { proveInbox } from './support.ts'

const Charge = new EntitySchema<{ orderId: string }>({
  name: 'Charge',
  tableName: 'charges',
  columns: { orderId: { name: 'order_id', type: 'text', primary: true } },
})
const connectionString = env('DATABASE_URL')
const pool = new pg.Pool({ connectionString, max: 2 })
await migrate(pool)
await pool.query('create table charges (order_id text)')
const dataSource = new DataSource({ type: 'postgres', url: connectionString, entities: [Charge] })
await dataSource.initialize()

await proveInbox({
  inbox: typeormInbox(dataSource, { connectionString }),
  write: async (tx: EntityManager, orderId) => {
    await tx.transaction((inner) => inner.getRepository(Charge).insert({ orderId }))
  },
  run: (tx, sql) => tx.query(sql),
  charged: async () => {
    const rows = await dataSource.getRepository(Charge).find({ order: { orderId: 'ASC' } })
    return rows.map(({ orderId }) => orderId).join()
  },
})
await dataSource.destroy()
await pool.end()
console.log('proved')
