import { type RedisConnection, redis, type Server, turnOf, until } from '@onceward/testing'
import { type InboxUnderTest, inboxConformance, inboxModel } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { createClientPool } from 'redis'
import { afterAll, beforeAll, describe } from 'vitest'
import { movedInbox } from '../fixtures/moved-inbox.ts'
import type { RedisTransaction } from './handle.ts'

let server: Server<RedisConnection>
let ioredis: Redis
let subject: InboxUnderTest<RedisTransaction>
let nodePool: ReturnType<typeof createClientPool>

beforeAll(async () => {
  server = await redis({ native: true })
  ioredis = new Redis(server.connection.port)
  nodePool = createClientPool({ url: server.connection.url })
  await nodePool.connect()
  subject = movedInbox(ioredis, ioredis)
})
afterAll(async () => {
  ioredis.disconnect()
  nodePool.destroy()
  await server.stop()
})

const capabilities = { storesBytes: true, forgetsByItself: true }
describe('with ioredis', turnOf(0, { of: 2 }), () => {
  inboxConformance('redisInbox', async () => movedInbox(ioredis, ioredis), capabilities)
})
describe('with node-redis', turnOf(1, { of: 2 }), () => {
  inboxConformance('redisInbox', async () => movedInbox(nodePool, ioredis), capabilities)
})

/** No event is locked. */
const quiet = (): Promise<unknown> =>
  until(async () => (await ioredis.keys(`*o:onceward:le${'?'.repeat(22)}`)).length === 0)
describe('the inbox of Redis', turnOf(1, { of: 4 }), () => {
  inboxModel('redisInbox', () => subject, {
    ...{ runs: 20, steps: 25, quiet, forgetsByItself: true },
  })
})
