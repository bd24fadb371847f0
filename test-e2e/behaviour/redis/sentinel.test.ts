// @module-tag nightly

import { redisLeases } from '@onceward/redis'
import {
  type RedisConnection,
  type RedisSentinels,
  redis,
  type Server,
  sentinels,
  until,
} from '@onceward/testing'
import { Redis } from 'ioredis'
import { createSentinel } from 'redis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Billing, charge, openBilling, orderPlaced } from '../traps/billing.ts'
import { breath, storm } from './storm.ts'

let servers: readonly Server<RedisConnection>[]
let watch: RedisSentinels
let billing: Billing

beforeAll(async () => {
  const settings = { appendonly: 'no' }
  servers = await Promise.all([0, 1].map(() => redis({ native: true, settings })))
  const [primary, replica] = servers.map(({ connection }) => connection)
  const follower = connect(replica)
  await follower.replicaof('127.0.0.1', primary?.port ?? 0)
  await isLinked(follower)
  follower.disconnect()
  watch = await sentinels(primary as RedisConnection, { downAfterMs: 500 })
  billing = await openBilling()
})
afterAll(async () => {
  await billing[Symbol.asyncDispose]()
  await watch[Symbol.asyncDispose]()
  await Promise.all(servers.map((server) => server.stop()))
})

function connect(connection: RedisConnection | undefined): Redis {
  const client = new Redis(connection?.port ?? 0, { retryStrategy: () => 20 })
  client.on('error', () => undefined)
  return client
}

const isLinked = (follower: Redis): Promise<boolean> =>
  until(async () => /master_link_status:up/.test(await follower.info('replication')))

async function primaryPort(): Promise<number> {
  const sentinel = connect(watch.nodes[0])
  try {
    const answer = await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', watch.name)
    return Number(Array.isArray(answer) ? answer[1] : Number.NaN)
  } finally {
    sentinel.disconnect()
  }
}

/** Kills the primary, waits until a replica is promoted, and restarts the old primary as a replica. */
async function failOver(): Promise<void> {
  const before = await primaryPort()
  const primary = servers.find(({ connection }) => connection.port === before)
  await breath(200)
  await primary?.kill()
  await until(async () => (await primaryPort()) !== before, { what: 'another primary' })
  await primary?.restart()
  const follower = connect(primary?.connection)
  await isLinked(follower)
  follower.disconnect()
}

// Red when an event that Redis lost with its primary runs again although Postgres has its row.
test('trap T31: Sentinel replaces the primary under load: 0 lost, 0 doubled', async () => {
  const nodes = watch.nodes.map(({ host, port }) => ({ host, port }))
  const ioredis = new Redis({
    sentinels: nodes,
    name: watch.name,
    retryStrategy: () => 20,
    sentinelRetryStrategy: () => 20,
  })
  ioredis.on('error', () => undefined)
  const nodeRedis = createSentinel({ name: watch.name, sentinelRootNodes: nodes })
  nodeRedis.on('error', () => undefined)
  await nodeRedis.connect()
  const guards = [ioredis, nodeRedis].map((client) =>
    billing.guard(charge, { options: { leases: redisLeases(client) } }),
  )
  try {
    const harm = await storm({ billing, guards, hurt: failOver, rounds: 1 })
    expect(harm).toEqual({ lost: 0, doubled: 0 })
    // Both clients found the new primary, and a duplicate of an event that is done there needs no Postgres.
    for (const [index, guard] of guards.entries()) {
      await until(async () => {
        const delivery = orderPlaced(`after-${index}-${Math.random()}`)
        expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
        await billing.admin.query('delete from onceward.processed_events')
        const again = await guard.process(delivery)
        return again.kind === 'ack' && again.by === 'duplicate'
      })
    }
  } finally {
    ioredis.disconnect()
    await nodeRedis.destroy()
  }
})
