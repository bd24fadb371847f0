import { EntitySchema, MikroORM, type SqlEntityManager } from '@mikro-orm/postgresql'
import { migrate } from '@onceward/postgres'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import pg from 'pg'
import { env } from './env.ts'
import { proveInbox } from './support.ts'

class Charge {
  orderId!: string
}
const schema = new EntitySchema<Charge>({
  class: Charge,
  tableName: 'charges',
  properties: { orderId: { type: 'text', primary: true, fieldName: 'order_id' } },
})
const connectionString = env('DATABASE_URL')
const pool = new pg.Pool({ connectionString, max: 2 })
await migrate(pool)
await pool.query('create table charges (order_id text)')
const orm = await MikroORM.init({ clientUrl: connectionString, entities: [schema] })

await proveInbox({
  inbox: mikroOrmInbox(orm, { connectionString }),
  write: async (tx: SqlEntityManager, orderId) => {
    await tx.transactional(async (inner) => {
      inner.persist(inner.create(Charge, { orderId }))
    })
  },
  run: (tx, sql) => tx.execute(sql),
  charged: async () => {
    const rows = await orm.em.fork().find(Charge, {}, { orderBy: { orderId: 'asc' } })
    return rows.map(({ orderId }) => orderId).join()
  },
})
await orm.close()
await pool.end()
console.log('proved')
