import { type RedisLeasesOptions, redisLeases } from '@onceward/redis'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Billing, charge, createGate, openBilling, orderPlaced } from '../traps/billing.ts'
import { breath, settled, storm } from './storm.ts'

let server: Server<RedisConnection>
let billing: Billing
const clients: Redis[] = []
const opened: Billing[] = []

beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
})
beforeEach(async () => {
  billing = await openBilling()
  opened.push(billing)
})
afterAll(async () => {
  await Promise.all(opened.map((one) => one[Symbol.asyncDispose]()))
  for (const client of clients) client.disconnect()
  await server.stop()
})

function connect(): Redis {
  const client = new Redis(server.connection.port, { retryStrategy: () => 20 })
  client.on('error', () => undefined)
  clients.push(client)
  return client
}

/** Options of a guard with a client of its own, like a process. The budget is long where Redis must not fail. */
const leased = (options: RedisLeasesOptions = { budgetMs: 10_000 }) => ({
  options: { leases: redisLeases(connect(), options) },
})
/** The same, and every event is claimed. */
const holding = (options: RedisLeasesOptions = { budgetMs: 10_000 }) =>
  leased({ ...options, hold: 'always' })

const pause = (): boolean => process.kill(server.pid as number, 'SIGSTOP')
const resume = (): boolean => process.kill(server.pid as number, 'SIGCONT')

describe('Redis loses what it had', () => {
  // Red when the lease is all that keeps a second run away.
  test('acceptance A3: FLUSHALL in the middle of a handler leaves one effect', async () => {
    const gate = createGate()
    const slow = billing.guard(async (event, context) => {
      await gate.pass()
      await charge(event, context)
    }, leased())
    const other = billing.guard(charge, leased())
    const running = slow.process(orderPlaced('order'))
    await gate.reached
    await connect().flushall()
    expect(await other.process(orderPlaced('order'))).toMatchObject({ kind: 'defer' })
    gate.open()
    expect(await running).toMatchObject({ by: 'processed' })
    expect(await settled(other, orderPlaced('order'))).toMatchObject({ by: 'duplicate' })
    expect(await billing.charges()).toBe(1)
  })

  // Red when an event that Redis does not know is new.
  test('trap T31: copies of a done event that Redis lost are still duplicates, and Redis gets its mark again', async () => {
    const guard = billing.guard(charge, holding())
    const delivery = orderPlaced('order')
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
    await connect().flushall()
    expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate' })
    // Redis has the done mark again. Postgres is not asked, so that its rows do not matter.
    await billing.admin.query('delete from onceward.processed_events')
    expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate' })
    expect(await billing.charges()).toBe(1)
  })

  test('trap T31: done events cost Postgres nothing while Redis has them', async () => {
    const guard = billing.guard(charge, holding())
    const deliveries = Array.from({ length: 50 }, (_, index) => orderPlaced(`order-${index}`))
    await guard.processBatch(deliveries)
    await billing.admin.query('alter table onceward.processed_events rename to away')
    const again = await guard.processBatch(deliveries)
    expect(again.filter((one) => one.kind === 'ack' && one.by === 'duplicate')).toHaveLength(50)
    await billing.admin.query('alter table onceward.away rename to processed_events')
  })
})

describe('acceptance A10: Redis goes away', () => {
  test('before a claim: Postgres alone decides', async () => {
    const guard = billing.guard(charge, leased({}))
    await guard.process(orderPlaced('warm'))
    await server.kill()
    try {
      expect(await settled(guard, orderPlaced('order'))).toMatchObject({ by: 'processed' })
      expect(await guard.process(orderPlaced('order'))).toMatchObject({ by: 'duplicate' })
    } finally {
      await server.restart()
    }
    expect(await billing.charges('order')).toBe(1)
  })

  test('before a completion: the redelivery finds the row', async () => {
    const guard = billing.guard(async (event, context) => {
      await charge(event, context)
      await server.kill()
    }, leased({}))
    expect(await guard.process(orderPlaced('order'))).toMatchObject({ by: 'processed' })
    await server.restart()
    expect(await settled(guard, orderPlaced('order'))).toMatchObject({ by: 'duplicate' })
    expect(await billing.charges()).toBe(1)
  })

  test('before a renewal: the handler finishes', async () => {
    const gate = createGate()
    const warnings: string[] = []
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      error: () => undefined,
      warn: (_fields: object, message: string) => void warnings.push(message),
    }
    const { options } = holding({})
    const slow = async (...[event, context]: Parameters<typeof charge>): Promise<void> => {
      await gate.pass()
      await charge(event, context)
    }
    const guard = billing.guard(slow, { options: { ...options, leaseMs: 1_000, logger } })
    const running = guard.process(orderPlaced('order'))
    await gate.reached
    await server.kill()
    await until(() => warnings.includes('the lease store does not answer'))
    gate.open()
    expect(await running).toMatchObject({ by: 'processed' })
    await server.restart()
    expect(await billing.charges()).toBe(1)
  })
})

// Red when a waiting copy polls the lease until it is free.
test('acceptance A18: a copy that waits for another run asks Redis a handful of times', async () => {
  const gate = createGate()
  const slow = billing.guard(async (event, context) => {
    await gate.pass()
    await charge(event, context)
  }, holding())
  const waiter = billing.guard(charge, holding())
  await waiter.process(orderPlaced('warm'))
  const running = slow.process(orderPlaced('order'))
  await gate.reached
  const admin = connect()
  await admin.config('RESETSTAT')
  const startedAt = Date.now()
  const settlement = await waiter.process(orderPlaced('order'))
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'in-progress' })
  if (settlement.kind === 'defer') expect(settlement.until - startedAt).toBeGreaterThan(500)
  const [, calls] = /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats')) ?? []
  expect(Number(calls)).toBeLessThanOrEqual(5)
  gate.open()
  expect(await running).toMatchObject({ by: 'processed' })
  expect(await billing.charges('order')).toBe(1)
})

describe('under load', () => {
  const none = { lost: 0, doubled: 0 }
  const hurtAll = (hurt: () => Promise<unknown>): ReturnType<typeof storm> => {
    const guards = [billing.guard(charge, leased({})), billing.guard(charge, leased({}))]
    return storm({ billing, guards, hurt })
  }

  test('Redis is killed and restarted again and again: 0 lost, 0 doubled', async () => {
    const harm = await hurtAll(async () => {
      await breath(100)
      await server.kill()
      await breath(100)
      await server.restart()
    })
    expect(harm).toEqual(none)
  })

  test('Redis is frozen again and again: 0 lost, 0 doubled', async () => {
    const harm = await hurtAll(async () => {
      await breath(50)
      pause()
      await breath(150)
      resume()
    })
    expect(harm).toEqual(none)
  })

  test('Redis is flushed again and again: 0 lost, 0 doubled', async () => {
    const admin = connect()
    const harm = await hurtAll(async () => {
      await admin.flushall()
      await breath(5)
    })
    expect(harm).toEqual(none)
  })

  test('Redis is full, then a replica, then neither: 0 lost, 0 doubled', async () => {
    const admin = connect()
    const harm = await hurtAll(async () => {
      await admin.config('SET', 'maxmemory', '1')
      await breath(50)
      await admin.config('SET', 'maxmemory', '0')
      await admin.replicaof('127.0.0.1', 1)
      await breath(50)
      await admin.replicaof('NO', 'ONE')
      await breath(50)
    })
    expect(harm).toEqual(none)
  })
})
