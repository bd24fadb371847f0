import { randomUUID } from 'node:crypto'
import { type RedisConnection, redis, type Server, turnOf } from '@onceward/testing'
import { type LeaseStoreUnderTest, leaseStoreConformance } from '@onceward/testing/conformance'
import { Cluster, Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient, createClientPool, createCluster } from 'redis'
import { afterAll, beforeAll, describe } from 'vitest'
import type { RedisLike } from './client.ts'
import { movedScripts } from './fixtures/clock.ts'
import { cluster, type RedisCluster } from './fixtures/cluster.ts'
import { leasesOf } from './lease-store.ts'

let server: Server<RedisConnection>
let nodes: RedisCluster
let ioredis: Redis
let iovalkey: Valkey
let ioCluster: Cluster
let nodeRedis: ReturnType<typeof createClient>
let nodePool: ReturnType<typeof createClientPool>
let nodeCluster: ReturnType<typeof createCluster>

beforeAll(async () => {
  ;[server, nodes] = await Promise.all([redis({ native: true }), cluster()])
  const { port, url } = server.connection
  ioredis = new Redis(port)
  iovalkey = new Valkey(port)
  ioCluster = new Cluster(nodes.nodes.map((node) => ({ host: node.host, port: node.port })))
  // Ten thousand claims at once may take seconds on a busy machine.
  const commandOptions = { timeout: 60_000 }
  nodeRedis = createClient({ url, commandOptions })
  nodePool = createClientPool({ url, commandOptions })
  nodeCluster = createCluster({
    rootNodes: nodes.nodes.map((node) => ({ url: node.url })),
    commandOptions,
  })
  await Promise.all([nodeRedis.connect(), nodePool.connect(), nodeCluster.connect()])
})
afterAll(async () => {
  ioredis.disconnect()
  iovalkey.disconnect()
  ioCluster.disconnect()
  nodeRedis.destroy()
  nodePool.destroy()
  nodeCluster.destroy()
  await Promise.all([server.stop(), nodes[Symbol.asyncDispose]()])
})

/** Each test has a namespace of its own. */
async function makeStore(client: RedisLike): Promise<LeaseStoreUnderTest> {
  const { pass, scripts } = movedScripts()
  const options = { namespace: randomUUID(), budgetMs: 60_000 }
  return {
    store: leasesOf(client, options, scripts),
    pass: async (ms) => pass(ms),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

const CLIENTS: readonly (readonly [name: string, client: () => RedisLike, rivals: number])[] = [
  ['ioredis', () => ioredis, 10_000],
  ['iovalkey', () => iovalkey, 1_000],
  ['node-redis', () => nodeRedis, 10_000],
  ['a pool of node-redis', () => nodePool, 1_000],
  ['a cluster', () => ioCluster, 10_000],
  ['a cluster of node-redis', () => nodeCluster, 1_000],
]
for (const [index, [name, client, rivals]] of CLIENTS.entries()) {
  describe(name, turnOf(index, { of: CLIENTS.length, count: 2 }), () => {
    leaseStoreConformance(`redisLeases on ${name}`, () => makeStore(client()), { rivals })
  })
}
