// @module-tag nightly

import { createGuard, type Guard, type GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'
import { database, proxy, type Server, sqs, until } from '@onceward/testing'
import type { Order } from '@onceward/testing/adapter'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hurt } from '../../../packages/sqs/src/fixtures/hurt.ts'
import { Queues } from '../../../packages/sqs/src/fixtures/queues.ts'

// ElasticMQ for its redrive policy, Postgres for effects that can be counted.
let server: Server<ConstructorParameters<typeof Queues>[0]>
let queues: Queues
let direct: pg.Pool
let url: string

beforeAll(async () => {
  server = await sqs({ engine: 'elasticmq' })
  queues = new Queues(server.connection)
  url = (await database()).url
  direct = new pg.Pool({ connectionString: url })
  await migrate(direct)
  await direct.query('create table charges (order_key text not null)')
})
afterAll(async () => {
  await direct.end()
  await server.stop()
})

const ignore = (): void => undefined
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }
const fast = { longPollMs: 1_000, drainMs: 5_000 }

interface Ledger {
  readonly pool: pg.Pool
  readonly guard: Guard
}

function ledger(
  consumer: string,
  connectionString: string,
  transaction: 'each' | 'batch' = 'each',
): Ledger {
  const pool = new pg.Pool({ connectionString, max: 10 })
  pool.on('error', ignore)
  const guard = createGuard<pg.PoolClient, unknown, Order>(
    {
      consumer,
      inbox: pgInbox(pool),
      transaction,
      logger: silent,
      leaseMs: 2_000,
      retry: { baseMs: 0 },
    },
    async (event: GuardEvent<Order>, { tx }) => {
      await tx.query('insert into charges values ($1)', [event.key])
    },
  )
  return { pool, guard }
}

async function charged(prefix: string): Promise<string[]> {
  const { rows } = await direct.query<{ order_key: string }>(
    'select order_key from charges where order_key like $1',
    [`${prefix}%`],
  )
  return rows.map((row) => row.order_key).toSorted()
}

const keysOf = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix}${n}`)

test.each(['each', 'batch'] as const)(
  'two consumers, copies of every message, transaction %s: one charge per order',
  async (transaction) => {
    const queueUrl = await queues.create()
    const keys = keysOf(`${transaction}-`, 100)
    await queues.send(queueUrl, [...keys, ...keys])
    const one = ledger(`two-${transaction}`, url, transaction)
    const two = ledger(`two-${transaction}`, url, transaction)
    const running = [one, two].map(({ guard }) =>
      consumeSqs(queues.client, guard, { queueUrl, ...fast }),
    )
    const consumptions = await Promise.all(running)
    await until(() => queues.isEmpty(queueUrl), { deadlineMs: 50_000 })
    for (const consumption of consumptions) await consumption.drain()
    expect(await charged(`${transaction}-`)).toEqual(keys.toSorted())
    for (const { guard, pool } of [one, two]) {
      await guard.close()
      await pool.end()
    }
  },
)

// Red when the loop ends with the first error of the store, or when the error is taken for a failed handler.
test('trap T16: connections that are cut under running handlers do not end the consumer, and every order is charged once', async () => {
  const queueUrl = await queues.create()
  const keys = keysOf('cut-', 300)
  await queues.send(queueUrl, keys)
  const address = new URL(url)
  await using databaseProxy = await proxy({ host: address.hostname, port: Number(address.port) })
  address.host = `127.0.0.1:${databaseProxy.port}`
  const { guard, pool } = ledger('cut', address.href)
  await using consumption = await consumeSqs(queues.client, guard, { queueUrl, ...fast })
  for (const most of [20, 100, 180]) {
    await until(async () => (await charged('cut-')).length >= most, { deadlineMs: 150_000 })
    databaseProxy.cut()
  }
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 200_000 })
  expect(await charged('cut-')).toEqual(keys.toSorted())
  expect(consumption.health().state).toBe('running')
  await consumption.drain()
  await guard.close()
  await pool.end()
}, 240_000)

// Red when polling goes on while the store is down: ElasticMQ moves what was received more than three times.
test('an outage of the store for ten seconds sends nothing to the queue of the redrive policy', async () => {
  const { queueUrl, deadUrl } = await queues.createPair(3)
  const keys = keysOf('away-', 40)
  const address = new URL(url)
  await using databaseProxy = await proxy({ host: address.hostname, port: Number(address.port) })
  address.host = `127.0.0.1:${databaseProxy.port}`
  const { guard, pool } = ledger('away', address.href)
  const client = queues.another()
  let receives = 0
  hurt(client, (command) => {
    if (command === 'ReceiveMessage') receives += 1
  })
  await using consumption = await consumeSqs(client, guard, { queueUrl, ...fast })
  await queues.send(queueUrl, ['away-first'])
  await until(async () => (await charged('away-')).length === 1)
  databaseProxy.refuse(true)
  databaseProxy.cut()
  await queues.send(queueUrl, keys)
  await until(() => consumption.health().state === 'paused', { deadlineMs: 20_000 })
  const before = receives
  const startedAt = performance.now()
  await until(() => performance.now() - startedAt > 10_000, { deadlineMs: 20_000 })
  expect(receives - before).toBeLessThan(20)
  databaseProxy.refuse(false)
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 150_000 })
  expect(await charged('away-')).toEqual([...keys, 'away-first'].toSorted())
  expect(await queues.isEmpty(deadUrl)).toBe(true)
  await consumption.drain()
  await guard.close()
  await pool.end()
}, 200_000)
