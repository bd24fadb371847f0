import { Redis } from 'ioredis'
import type { Pool } from 'pg'
import { withPool } from './database.ts'
import { type Entrant, ordersOf, startRun } from './handed.ts'
import { countingPostgres, countingRedis, type Traffic, through } from './wire.ts'

/** What one fresh event costs. */
export type Costs = Readonly<
  Record<'statements' | 'commits' | 'Redis calls' | 'bytes in Postgres' | 'bytes in Redis', number>
>

/** Runs new events through proxies that count. Nothing of this is timed. */
export async function costsOf(entrant: Entrant, events: number): Promise<Costs> {
  const { databaseUrl, redisUrl } = entrant
  const traffic: Traffic = { statements: 0, commits: 0, redisCalls: 0 }
  await using postgres = await countingPostgres(databaseUrl, traffic)
  await using cache = await countingRedis(redisUrl, traffic)
  const counted = {
    ...entrant,
    databaseUrl: through(databaseUrl, postgres),
    redisUrl: through(redisUrl, cache),
  }
  await using run = await startRun(counted, databaseUrl)
  const before = await stored(entrant)
  Object.assign(traffic, { statements: 0, commits: 0, redisCalls: 0 })
  await run.deliver(ordersOf(events), events)
  const { statements, commits, redisCalls } = { ...traffic }
  const after = await stored(entrant)
  return {
    statements: statements / events,
    commits: commits / events,
    'Redis calls': redisCalls / events,
    'bytes in Postgres': (after.postgres - before.postgres) / events,
    'bytes in Redis': (after.redis - before.redis) / events,
  }
}

const RELATIONS = `select coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 as bytes
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and c.relname <> 'effects'
    and n.nspname not in ('pg_catalog', 'information_schema')`

/** What is kept beside the effects. */
async function stored({ databaseUrl, redisUrl }: Entrant): Promise<{
  readonly postgres: number
  readonly redis: number
}> {
  const postgres = await withPool(databaseUrl, async (pool: Pool) => {
    const { rows } = await pool.query(RELATIONS)
    return Number(rows[0].bytes)
  })
  const redis = new Redis(redisUrl)
  const memory = await redis.info('memory')
  redis.disconnect()
  return { postgres, redis: Number(/used_memory_dataset:(\d+)/.exec(memory)?.[1]) }
}
