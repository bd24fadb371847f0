import { postgresJsInbox } from '@onceward/postgres/postgres-js'
import postgres, { type TransactionSql } from 'postgres'
import type { Order } from '../load/effects.ts'
import type { OrmContestant } from './contestant.ts'

const write = (tx: TransactionSql, { orderId, cents }: Order): PromiseLike<unknown> =>
  tx`insert into effects (order_id, cents) values (${orderId}, ${cents})`

export const postgresJsContestant: OrmContestant = {
  name: 'postgres-js',
  connect: async (connectionString, max) => {
    const sql = postgres(connectionString, { max })
    return {
      inbox: postgresJsInbox(sql),
      write: async (tx, order) => {
        await write(tx as TransactionSql, order)
      },
      byHand: (order) =>
        sql.begin(async (tx) => {
          const { count } =
            await tx`insert into handled (id) values (${order.orderId}) on conflict do nothing`
          if (count === 1) await write(tx, order)
        }),
      close: () => sql.end(),
    }
  },
}
