import { type Consumption, createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { ProveEnv } from '@onceward/testing/prove'
import { consume, type Order, options, poolOf } from './shared.ts'

export { count, event, setup, teardown } from './shared.ts'

const FLUSH_MS = 100

/** Wrong: effects wait in memory for a batch, so a kill loses what is acknowledged and not written. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const pool = poolOf(env)
  const buffered: Order[] = []
  const flush = async (): Promise<void> => {
    for (const { cents, id } of buffered.splice(0)) {
      await pool.query('insert into charges values ($1, $2)', [id, cents])
    }
  }
  setInterval(() => void flush(), FLUSH_MS)
  const guard = createGuard({ ...options(env), inbox: pgInbox(pool) }, async (event, { tx }) => {
    await tx.query('select $1::text', [event.payload.id])
    buffered.push(event.payload)
  })
  return consume(env, guard)
}
