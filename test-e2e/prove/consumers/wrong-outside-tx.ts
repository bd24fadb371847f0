import { type Consumption, createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { ProveEnv } from '@onceward/testing/prove'
import type { Pool } from 'pg'
import { consume, type Order, options, poolOf } from './shared.ts'

export { count, event, setup, teardown } from './shared.ts'

class ChargeRepository {
  readonly #pool: Pool
  constructor(pool: Pool) {
    this.#pool = pool
  }

  async save({ cents, id }: Order): Promise<void> {
    await this.#pool.query('insert into charges values ($1, $2)', [id, cents])
  }
}

/** Wrong: the repository has a connection of its own, so its statement is committed without the event. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const pool = poolOf(env)
  const charges = new ChargeRepository(pool)
  const guard = createGuard({ ...options(env), inbox: pgInbox(pool) }, async (event, { tx }) => {
    await charges.save(event.payload)
    await tx.query('select 1')
  })
  return consume(env, guard)
}
