import { type Consumption, createGuard } from '@onceward/core'
import { kyselyInbox } from '@onceward/postgres/kysely'
import type { ProveEnv } from '@onceward/testing/prove'
import { Kysely, PostgresDialect } from 'kysely'
import { consume, options, poolOf } from './shared.ts'

export { count, event, setup, teardown } from './shared.ts'

interface Tables {
  charges: { order_id: string; cents: number }
}

/** A query builder. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: poolOf(env) }) })
  const inbox = kyselyInbox(db, { poolSize: 10 })
  const guard = createGuard({ ...options(env), inbox }, async ({ payload }, { tx }) => {
    const { cents, id } = payload
    await tx.insertInto('charges').values({ order_id: id, cents }).execute()
  })
  return consume(env, guard)
}
