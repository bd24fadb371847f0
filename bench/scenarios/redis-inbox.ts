import { randomUUID } from 'node:crypto'
import { createGuard, type Guard } from '@onceward/core'
import { redisInbox } from '@onceward/redis'
import { toDelivery } from '../load/effects.ts'
import { type Cache, openCache } from '../redis/testbed.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternate,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'
import { settle } from './guard.ts'

/** Mark and effect in one script, by hand: what users write without the guard. */
const BARE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', '1296000000') then
  redis.call('HINCRBY', KEYS[2], ARGV[2], -1)
  redis.call('ZINCRBY', KEYS[3], 1, ARGV[2])
end
return 1
`

/** A guard whose effects are in Redis, beside a bare script with the same writes. */
export async function redisInboxBenchmark({ events, rounds }: Scale): Promise<Benchmark> {
  await using cache = await openCache()
  const guardOf = (transaction: 'each' | 'batch'): Guard =>
    createGuard(
      {
        consumer: transaction,
        transaction,
        concurrency: CONCURRENCY,
        inbox: redisInbox(cache.client, { hashTag: 'bench' }),
      },
      async (_, { tx }) => {
        tx.hIncrBy('{bench}stock', 'sku', -1)
        tx.zIncrBy('{bench}board', 1, 'sku')
      },
    )
  const rates = await alternate(
    [
      await bare(cache),
      guarded('redis-inbox', guardOf('each'), 1),
      guarded('redis-inbox-batch', guardOf('batch'), 100),
    ],
    { rounds, events: events * 2 },
  )
  return {
    name: 'redisInbox',
    unit: 'events/s',
    values: Object.fromEntries([...rates].map(([name, of]) => [name, median(of)])),
    ratios: {
      each: ratioOf(rates, 'redis-inbox', 'bare-script'),
      batch: ratioOf(rates, 'redis-inbox-batch', 'bare-script'),
    },
    goals: [
      { name: 'each', least: 0.7 },
      { name: 'batch', least: 0.7 },
    ],
  }
}

async function bare({ client }: Cache): Promise<Contestant> {
  const sha = String(await client.script('LOAD', BARE))
  return {
    name: 'bare-script',
    prepare: async (events) => {
      const ids = Array.from({ length: events }, () => randomUUID())
      return () =>
        inLanes(ids, CONCURRENCY, async (id) => {
          const keys = [`{bench}m:${id}`, '{bench}stock', '{bench}board']
          await client.evalsha(sha, keys.length, ...keys, '1', 'sku')
        })
    },
  }
}

/** @param size - Events of a call. */
function guarded(name: string, guard: Guard, size: number): Contestant {
  return {
    name,
    prepare: async (events) => {
      const slices = Array.from({ length: events / size }, () =>
        Array.from({ length: size }, toDelivery),
      )
      return () => inLanes(slices, CONCURRENCY, (slice) => settle(guard, slice, 'processed'))
    },
  }
}
