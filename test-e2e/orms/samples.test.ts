// @module-tag nightly

import { randomUUID } from 'node:crypto'
import type { Guard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { database } from '@onceward/testing'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'

let url: string
let pool: pg.Pool

beforeAll(async () => {
  url = (await database()).url
  process.env['DATABASE_URL'] = url
  pool = new pg.Pool({ connectionString: url, max: 3 })
  await migrate(pool)
  await pool.query('create table charges (order_id text, cents int)')
})
afterAll(() => pool.end())

async function charges(key: string): Promise<number> {
  const counting = 'select count(*)::int as n from charges where order_id = $1'
  return (await pool.query(counting, [key])).rows[0].n
}

const SAMPLES = [...['knex', 'drizzle', 'postgres-js', 'prisma'], ...['typeorm', 'mikro-orm']]

for (const name of SAMPLES) {
  it(`the sample of docs/orms.md for ${name} charges an order once`, async () => {
    const { billing } = (await import(`../../docs/samples/orm-${name}.ts`)) as { billing: Guard }
    const key = randomUUID()
    const delivery = toDelivery({}, { headers: { 'idempotency-key': key } })
    expect(await billing.process(delivery)).toMatchObject({ kind: 'ack', by: 'processed' })
    expect(await billing.process(delivery)).toMatchObject({ kind: 'ack', by: 'duplicate' })
    expect(await charges(key)).toBe(1)
    await billing.close()
  })
}
