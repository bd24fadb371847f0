import { randomUUID } from 'node:crypto'
import { type RedisConnection, redis, type Server, turnOf } from '@onceward/testing'
import { type LeaseStoreUnderTest, leaseStoreModel } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe } from 'vitest'
import { leasesOf } from './lease-store.ts'
import { createScripts } from './scripts.ts'

let server: Server<RedisConnection>
let client: Redis
let store: LeaseStoreUnderTest

beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
  client = new Redis(server.connection.port)
  store = stillStore()
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

/** Time stands still but for `pass`. */
function stillStore(): LeaseStoreUnderTest {
  const key = `clock:${randomUUID()}`
  const scripts = createScripts(`
local function clock()
  return 1700000000000 + tonumber(redis.call('GET', '${key}') or '0')
end`)
  return {
    store: leasesOf(client, { namespace: randomUUID(), budgetMs: 30_000 }, scripts),
    pass: async (ms) => void (await client.incrby(key, ms)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

describe('the leases of Redis', turnOf(3, { of: 4 }), () => {
  leaseStoreModel('redisLeases', () => store, { runs: 900, steps: 100, commands: 100_000 })
})
