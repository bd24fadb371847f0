import { createGuard, FatalError, type Guard } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import pg from 'pg'
import { env } from './env.ts'
import { retry, until } from './support.ts'

export { env, until }

const pool = new pg.Pool({ connectionString: env('DATABASE_URL'), max: 12 })
await migrate(pool)
await pool.query('create table charges (order_id text)')

/** Charges orders, and dead-letters the order `poison`. */
export const guard: Guard = createGuard<pg.PoolClient, { orderId: string }>(
  {
    consumer: 'versions',
    inbox: pgInbox(pool),
    eventKey: ({ payload }) => payload.orderId,
    retry,
  },
  async ({ payload: { orderId } }, { tx }) => {
    if (orderId === 'poison') throw new FatalError('poison')
    await tx.query('insert into charges values ($1)', [orderId])
  },
)

/** The order ids that were charged, in order. */
export async function consumed(): Promise<string> {
  const { rows } = await pool.query('select order_id from charges order by 1')
  return rows.map(({ order_id }) => order_id).join()
}
