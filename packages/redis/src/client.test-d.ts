import type { LeaseStore } from '@onceward/core'
import { Cluster, Redis } from 'ioredis'
import { Redis as Valkey, Cluster as ValkeyCluster } from 'iovalkey'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { redisLeases } from './index.ts'

/** Compiled, never run: the clients that fit, as their users make them. */
export function clientsThatFit(): readonly LeaseStore[] {
  const rootNodes = [{ url: 'redis://127.0.0.1:6379' }]
  const sentinels = [{ host: '127.0.0.1', port: 26379 }]
  return [
    redisLeases(new Redis()),
    redisLeases(new Redis({ sentinels, name: 'main', keyPrefix: 'mine:' })),
    redisLeases(new Cluster([{ port: 7000 }])),
    redisLeases(new Valkey(), { budgetMs: 20, namespace: 'billing', rememberDoneMs: 3_600_000 }),
    redisLeases(new ValkeyCluster([{ port: 7000 }])),
    redisLeases(createClient()),
    redisLeases(createClient({ RESP: 3 })),
    redisLeases(createClientPool()),
    redisLeases(createCluster({ rootNodes })),
    redisLeases(createSentinel({ name: 'main', sentinelRootNodes: sentinels })),
    redisLeases({ evalsha: async () => [], script: async () => 'sha' }),
    redisLeases({ evalSha: async () => [], eval: async () => [] }),
  ]
}

// @ts-expect-error: no way to load the script where it is not known
redisLeases({ evalsha: async () => [] })
// @ts-expect-error: no client at all
redisLeases('redis://127.0.0.1:6379')
