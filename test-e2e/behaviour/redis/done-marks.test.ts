import type { Handler } from '@onceward/core'
import { redisLeases } from '@onceward/redis'
import { type RedisConnection, redis, type Server } from '@onceward/testing'
import { Redis } from 'ioredis'
import type { PoolClient } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Billing, charge, openBilling, orderPlaced } from '../traps/billing.ts'
import { settled } from './storm.ts'

let server: Server<RedisConnection>
let client: Redis
let billing: Billing

beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
  client = new Redis(server.connection.port)
  billing = await openBilling()
  await billing.admin.query(`create table checked (key text,
    constraint known check (key <> 'bad'),
    constraint one unique (key) deferrable initially deferred)`)
  await billing.admin.query(`insert into checked values ('taken')`)
})
afterAll(async () => {
  await billing[Symbol.asyncDispose]()
  client.disconnect()
  await server.stop()
})

type Way = Handler<unknown, PoolClient>

const endConnection: Way = async (event, context) => {
  await charge(event, context)
  const { rows } = await context.tx.query('select pg_backend_pid() as pid')
  await billing.admin.query('select pg_terminate_backend($1)', [rows[0].pid])
}

/** Steps after which a run does not end with a commit. */
const WAYS: readonly (readonly [string, Way])[] = [
  [
    'in the handler',
    async (event, context) => {
      await charge(event, context)
      throw new Error('no such customer')
    },
  ],
  [
    'in a statement of the handler',
    async (event, context) => {
      await charge(event, context)
      await context.tx.query(`insert into checked values ('bad')`)
    },
  ],
  [
    'at COMMIT, which the server refuses',
    async (event, context) => {
      await charge(event, context)
      await context.tx.query(`insert into checked values ('taken')`)
    },
  ],
  ['before COMMIT, with its connection', endConnection],
  [
    'past its deadline',
    async (event, context) => {
      await charge(event, context)
      await new Promise((resolve) => context.signal.addEventListener('abort', resolve))
    },
  ],
]

/** The keys of done marks and of results. */
async function done(): Promise<readonly string[]> {
  const keys = await client.keys('{o:*}*')
  const values = await Promise.all(
    keys.map(async (key) => (/\}e/.test(key) ? String(await client.get(key)) : '')),
  )
  return keys.filter((key, index) => /\}m/.test(key) || values[index]?.startsWith('1d'))
}

// Red when Redis is told of a completion before the commit has answered.
describe.each(['always', 'by-need'] as const)('with hold: %s', (hold) => {
  test.each(WAYS)('a run that ends %s leaves no done mark in Redis', async (where, way) => {
    await client.flushall()
    let isBroken = true
    const guard = billing.guard((event, context) => (isBroken ? way : charge)(event, context), {
      options: {
        leases: redisLeases(client, { budgetMs: 10_000, hold }),
        deadlineMs: 1_000,
        retry: { attempts: 9, baseMs: 1, maxMs: 1 },
      },
    })
    const name = `${where} ${hold}`
    const delivery = orderPlaced(name)
    expect((await guard.process(delivery)).kind).not.toBe('ack')
    expect(await done()).toEqual([])
    expect(await billing.charges(name)).toBe(0)
    isBroken = false
    // Redis has no done mark either way, so the event runs, and then there is a row that allows one.
    expect(await settled(guard, delivery)).toMatchObject({ kind: 'ack' })
    // By need it is written behind the commit.
    await expect.poll(done).toHaveLength(1)
    expect(await billing.charges(name)).toBe(1)
  })
})
