// @module-tag nightly

import type { EventId } from '@onceward/core/ports'
import { deadLetters } from '@onceward/postgres'
import { redisLeases } from '@onceward/redis'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Billing, charge, openBilling, orderPlaced } from '../traps/billing.ts'

let server: Server<RedisConnection>
let client: Redis
let billing: Billing

beforeAll(async () => {
  server = await redis({ native: true })
  client = new Redis(server.connection.port, { retryStrategy: () => 20 })
  client.on('error', () => undefined)
  billing = await openBilling()
})
afterAll(async () => {
  await billing[Symbol.asyncDispose]()
  client.disconnect()
  await server.stop()
})

/** Names keys in Redis as the guard does. */
const idOf = async (key: string): Promise<EventId> =>
  (await billing.value(`select onceward.event_id('billing', null, $1)`, [key])) as EventId

test('an operator replays a dead event that Redis has as waiting', async () => {
  let isBroken = true
  const guard = billing.guard(
    async (event, context) => {
      if (isBroken) throw new Error('no such customer')
      await charge(event, context)
    },
    {
      options: {
        leases: redisLeases(client, { budgetMs: 10_000 }),
        retry: { attempts: 2, baseMs: 600_000, maxMs: 600_000 },
      },
    },
  )
  const delivery = orderPlaced('order')
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'not-due' })
  // The event dies while Redis is down, so that Redis still has its wait of minutes.
  await server.kill()
  await billing.age()
  await until(async () => (await guard.process(delivery)).kind === 'dead-letter')
  await server.restart()
  expect(await billing.charges()).toBe(0)

  isBroken = false
  const id = await idOf('order')
  expect(await deadLetters(billing.admin).replay(id)).toEqual({ done: [id], untouched: [] })
  // The guard runs the parked event from Postgres and does not ask Redis.
  await until(async () => (await billing.charges('order')) === 1, {
    what: 'the replayed event to run',
    deadlineMs: 60_000,
  })
  const settlement = await guard.process(delivery)
  expect(settlement.kind === 'ack' ? settlement.by : settlement.kind).toMatch(/duplicate|defer/)
  expect(await billing.charges('order')).toBe(1)
})

test('copies of a discarded event find it dead, whatever Redis has', async () => {
  const guard = billing.guard(() => Promise.reject(new Error('no such customer')), {
    options: { leases: redisLeases(client, { budgetMs: 10_000 }), retry: { attempts: 1 } },
  })
  const delivery = orderPlaced('discarded')
  expect(await guard.process(delivery)).toMatchObject({ kind: 'dead-letter' })
  const id = await idOf('discarded')
  await deadLetters(billing.admin).discard(id, 'a test order')
  expect(await guard.process(delivery)).toMatchObject({ kind: 'dead-letter' })
  await client.flushall()
  expect(await guard.process(delivery)).toMatchObject({ kind: 'dead-letter' })
  expect(await billing.charges('discarded')).toBe(0)
})
