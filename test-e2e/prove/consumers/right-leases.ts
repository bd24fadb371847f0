import { type Consumption, createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import type { ProveEnv } from '@onceward/testing/prove'
import { Redis } from 'ioredis'
import { consume, options, poolOf } from './shared.ts'

export { count, event, setup, teardown } from './shared.ts'

/** Leases in Redis beside the inbox. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const inbox = pgInbox(poolOf(env))
  const leases = redisLeases(new Redis(env.redisUrl ?? ''), { hold: 'always' })
  const guard = createGuard({ ...options(env), inbox, leases }, async ({ payload }, { tx }) => {
    await tx.query('insert into charges values ($1, $2)', [payload.id, payload.cents])
  })
  return consume(env, guard)
}
