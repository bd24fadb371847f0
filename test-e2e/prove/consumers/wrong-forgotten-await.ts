import { type Consumption, createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { ProveEnv } from '@onceward/testing/prove'
import { consume, type Order, options, poolOf } from './shared.ts'

export { count, event, setup, teardown } from './shared.ts'

interface Queryable {
  query(text: string, values: unknown[]): Promise<unknown>
}

async function charge(tx: Queryable, { cents, id }: Order): Promise<void> {
  // A price list, a cache, a feature flag: anything that takes a moment.
  await new Promise((resolve) => setTimeout(resolve, id.endsWith('3') ? 20 : 0))
  await tx.query('insert into charges values ($1, $2)', [id, cents])
}

/** Wrong: nothing awaits the helper, so the event is committed before its statement. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const inbox = pgInbox(poolOf(env))
  const guard = createGuard({ ...options(env), inbox }, async ({ payload }, { tx }) => {
    void charge(tx, payload)
  })
  return consume(env, guard)
}
