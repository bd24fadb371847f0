import { EntitySchema, MikroORM, type SqlEntityManager } from '@mikro-orm/postgresql'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import type { Order } from '../load/effects.ts'
import type { OrmContestant } from './contestant.ts'

const Effect = new EntitySchema<Order>({
  name: 'Effect',
  tableName: 'effects',
  properties: {
    orderId: { type: 'uuid', primary: true, fieldName: 'order_id' },
    cents: { type: 'integer' },
  },
})

async function write(tx: SqlEntityManager, { orderId, cents }: Order): Promise<void> {
  await tx.insert(Effect, { orderId, cents })
}

export const mikroOrmContestant: OrmContestant = {
  name: 'mikro-orm',
  connect: async (clientUrl, max) => {
    const orm = await MikroORM.init({ clientUrl, pool: { max }, entities: [Effect] })
    return {
      inbox: mikroOrmInbox(orm, { connectionString: clientUrl }),
      write: (tx, order) => write(tx as SqlEntityManager, order),
      byHand: (order) =>
        orm.em.fork().transactional(async (tx) => {
          const rows = await tx.execute(
            'insert into handled (id) values (?) on conflict do nothing returning id',
            [order.orderId],
          )
          if (rows.length === 1) await write(tx, order)
        }),
      close: () => orm.close(),
    }
  },
}
