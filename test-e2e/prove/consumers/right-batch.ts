import { type Consumption, createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { ProveEnv } from '@onceward/testing/prove'
import { consume, options, poolOf } from './shared.ts'

export { count, event, setup, teardown } from './shared.ts'

/** Several events share a transaction. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const inbox = pgInbox(poolOf(env))
  const batch = { ...options(env), inbox, transaction: 'batch' as const }
  const guard = createGuard(batch, async ({ payload }, { tx }) => {
    await tx.query('insert into charges values ($1, $2)', [payload.id, payload.cents])
  })
  return consume(env, guard)
}
