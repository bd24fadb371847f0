import { typeormInbox } from '@onceward/postgres/typeorm'
import { DataSource, type EntityManager, EntitySchema } from 'typeorm'
import type { Order } from '../load/effects.ts'
import type { OrmContestant } from './contestant.ts'

const Effect = new EntitySchema<Order>({
  name: 'Effect',
  tableName: 'effects',
  columns: { orderId: { name: 'order_id', type: 'uuid', primary: true }, cents: { type: 'int' } },
})

const write = (tx: EntityManager, { orderId, cents }: Order): Promise<unknown> =>
  tx.insert(Effect, { orderId, cents })

export const typeormContestant: OrmContestant = {
  name: 'typeorm',
  connect: async (url, max) => {
    const extra = { max, idleTimeoutMillis: 0 }
    const dataSource = new DataSource({ type: 'postgres', url, entities: [Effect], extra })
    await dataSource.initialize()
    return {
      inbox: typeormInbox(dataSource, { connectionString: url }),
      write: (tx, order) => write(tx as EntityManager, order),
      byHand: (order) =>
        dataSource.transaction(async (tx) => {
          const rows: unknown[] = await tx.query(
            'insert into handled (id) values ($1) on conflict do nothing returning id',
            [order.orderId],
          )
          if (rows.length === 1) await write(tx, order)
        }),
      close: () => dataSource.destroy(),
    }
  },
}
