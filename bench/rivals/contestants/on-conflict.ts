import { inTransaction, write } from '../../load/effects.ts'
import { consumeByHand } from '../by-hand.ts'
import { execute, openPool } from '../database.ts'
import { toOrder } from '../orders.ts'
import type { Rival } from '../rival.ts'

const TABLE = `create table handled_messages (
  id uuid primary key,
  handled_at timestamptz not null default now()
)`

const INSERT = 'insert into handled_messages (id) values ($1) on conflict do nothing'

/** The hand-written solution: the id goes into a table in the transaction of the effect. */
export const onConflict: Rival = {
  name: 'on-conflict',
  hasRedis: false,
  setUp: (databaseUrl) => execute(databaseUrl, TABLE),
  consume: async (surroundings) => {
    const stack = new AsyncDisposableStack()
    const pool = openPool(surroundings, stack)
    stack.use(
      consumeByHand(surroundings, async (message) => {
        const order = toOrder(message)
        await inTransaction(pool, async (tx) => {
          const { rowCount } = await tx.query(INSERT, [order.id])
          if (rowCount === 1) await write(tx, order)
        })
      }),
    )
    return stack
  },
}
