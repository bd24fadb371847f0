// @module-tag nightly

import { redisLeases } from '@onceward/redis'
import {
  proxy,
  type RedisConnection,
  redis,
  type Server,
  type TcpProxy,
  until,
} from '@onceward/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Billing, charge, openBilling, orderPlaced, quiet } from '../traps/billing.ts'
import { breath, settled, storm } from './storm.ts'

let server: Server<RedisConnection>
let link: TcpProxy
let billing: Billing
const clients: Redis[] = []
const opened: Billing[] = []

/** Redis loads its snapshot slowly, and answers LOADING meanwhile. */
const SLOW_TO_LOAD = {
  appendonly: 'no',
  'key-load-delay': '2000',
  'loading-process-events-interval-bytes': '1024',
}
const KEYS = 2_000

beforeAll(async () => {
  server = await redis({ native: true, settings: SLOW_TO_LOAD })
  link = await proxy(server.connection)
})
beforeEach(async () => {
  billing = await openBilling()
  opened.push(billing)
})
afterAll(async () => {
  await Promise.all(opened.map((one) => one[Symbol.asyncDispose]()))
  for (const client of clients) client.disconnect()
  await link.stop()
  await server.stop()
})

function connect({ port }: { readonly port: number } = server.connection): Redis {
  // Does not wait until the server has loaded, so that the guard gets its LOADING answers.
  const client = new Redis(port, { retryStrategy: () => 20, enableReadyCheck: false })
  client.on('error', () => undefined)
  clients.push(client)
  return client
}

const none = { lost: 0, doubled: 0 }

// Red when a claim whose answer came too late, after Postgres had been asked instead, stays in Redis.
test('Redis behind a network with a latency of 2 s, and then without: 0 lost, 0 doubled', async () => {
  const guards = [0, 1].map(() =>
    billing.guard(charge, { options: { leases: redisLeases(connect(link)) } }),
  )
  const hurt = async (): Promise<void> => {
    link.latencyMs = 2_000
    await breath(1_500)
    link.latencyMs = 0
    await breath(300)
  }
  expect(await storm({ billing, guards, hurt })).toEqual(none)
  const admin = connect()
  const claims = async (): Promise<number> => {
    const keys = await admin.keysBuffer('{o:*}e*')
    const values = await Promise.all(keys.map((key) => admin.get(key)))
    return values.filter((value) => value?.startsWith('1p')).length
  }
  await until(async () => (await claims()) === 0, { what: 'all late claims to be given back' })
})

test('a guard does not wait for a Redis that is loading its snapshot, and uses it afterwards', async () => {
  const admin = connect()
  const texts = Array.from({ length: KEYS }, (_, index) => [`theirs:${index}`, 'x'.repeat(100)])
  await admin.mset(...texts.flat())
  await admin.save()
  const leases = redisLeases(connect(), { budgetMs: 1_000 })
  const guard = billing.guard(charge, { options: { leases, logger: quiet } })
  await guard.process(orderPlaced('before'))
  await server.kill()
  // Resolves when Redis has loaded its snapshot.
  const restarted = server.restart()
  try {
    const probe = connect()
    const isLoading = async (): Promise<boolean> =>
      /loading:1/.test(await probe.info('persistence').catch(() => ''))
    let events = 1
    await until(
      async () => {
        events += 1
        const settlement = await settled(guard, orderPlaced(`order-${events}`))
        expect(settlement).toMatchObject({ by: 'processed' })
        return isLoading()
      },
      { what: 'events to run while Redis is loading', everyMs: 5 },
    )
    expect(await billing.charges()).toBe(events)
  } finally {
    await restarted
  }
  // Redis is used again: a duplicate of a done event needs no Postgres.
  await until(async () => {
    await guard.process(orderPlaced('after'))
    return (await admin.keys('{o:*}m*')).length > 0
  })
  expect(await billing.charges('after')).toBe(1)
})
