import { randomUUID } from 'node:crypto'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createBilling } from '../src/billing.ts'
import { databaseUrl } from '../src/settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
// Two guards on one database are two workers.
const workers = [createBilling(pgInbox(pool)), createBilling(pgInbox(pool))]

beforeAll(async () => {
  await migrate(pool)
  await pool.query(
    'create table if not exists charges (order_id text not null, cents int not null)',
  )
})
afterAll(async () => {
  for (const worker of workers) await worker.close()
  await pool.end()
})

async function charges(orderId: string): Promise<number> {
  const text = 'select from charges where order_id = $1'
  return (await pool.query(text, [orderId])).rows.length
}

test('two workers that get the same order at once charge it once', async () => {
  const orderId = randomUUID()
  const order = toDelivery({ orderId, cents: 1999 })
  const settlements = await Promise.all(workers.map((worker) => worker.process(order)))
  expect(settlements).toContainEqual({ kind: 'ack', by: 'processed' })
  expect(await charges(orderId)).toBe(1)
})

test('what a handler wrote before it threw is not there', async () => {
  const orderId = randomUUID()
  const settlement = await workers[0]?.process(toDelivery({ orderId, cents: -1 }))
  expect(settlement).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
  expect(await charges(orderId)).toBe(0)
})
