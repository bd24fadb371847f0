import { knexInbox } from '@onceward/postgres/knex'
import createKnex, { type Knex } from 'knex'
import type { Order } from '../load/effects.ts'
import type { OrmContestant } from './contestant.ts'

const write = (tx: Knex, { orderId, cents }: Order): Promise<unknown> =>
  tx('effects').insert({ order_id: orderId, cents })

export const knexContestant: OrmContestant = {
  name: 'knex',
  connect: async (connectionString, max) => {
    const knex = createKnex({ client: 'pg', connection: connectionString, pool: { min: max, max } })
    return {
      inbox: knexInbox(knex, { connectionString }),
      write: (tx, order) => write(tx as Knex, order),
      byHand: (order) =>
        knex.transaction(async (tx) => {
          const { rowCount } = await tx.raw(
            'insert into handled (id) values (?) on conflict do nothing',
            [order.orderId],
          )
          if (rowCount === 1) await write(tx, order)
        }),
      close: () => knex.destroy(),
    }
  },
}
