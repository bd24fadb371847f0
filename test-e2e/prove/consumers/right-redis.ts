import { type Consumption, createGuard } from '@onceward/core'
import { redisInbox } from '@onceward/redis'
import type { ProveEnv } from '@onceward/testing/prove'
import { Redis } from 'ioredis'
import { consume, options } from './shared.ts'

export { event } from './shared.ts'

const CHARGES = '{prove}charges'

/** The effects are in Redis, so no COMMIT is seen on the wire. */
export async function start(env: ProveEnv): Promise<Consumption> {
  const inbox = redisInbox(new Redis(env.redisUrl ?? ''), { hashTag: 'prove' })
  const guard = createGuard({ ...options(env), inbox }, async ({ payload }, { tx }) => {
    tx.hIncrBy(CHARGES, payload.id, 1)
  })
  return consume(env, guard)
}

async function withRedis<Result>(
  { redisUrl = '' }: ProveEnv,
  work: (redis: Redis) => Promise<Result>,
): Promise<Result> {
  const redis = new Redis(redisUrl)
  try {
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}

export async function count(env: ProveEnv): Promise<Record<string, number>> {
  const found = await withRedis(env, (redis) => redis.hgetall(CHARGES))
  return Object.fromEntries(Object.entries(found).map(([id, times]) => [id, Number(times)]))
}

export async function teardown(env: ProveEnv): Promise<void> {
  await withRedis(env, async (redis) => {
    const keys = await redis.keys('*{prove}*')
    if (keys.length > 0) await redis.del(keys)
  })
}
