import assert from 'node:assert/strict'
import { createHttpGuard, type HttpGuard } from '@onceward/http'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import pg from 'pg'
import { env } from './env.ts'

const pool = new pg.Pool({ connectionString: env('DATABASE_URL'), max: 12 })
await migrate(pool)
let runs = 0

export const charge: HttpGuard = createHttpGuard(
  { consumer: 'versions', inbox: pgInbox(pool), tenant: () => 'shop' },
  async ({ payload }) => {
    runs += 1
    return { status: 201, body: { payload, runs } }
  },
)

/** A retry with the same key gets the same answer, and runs nothing. */
export async function proveRoute(url: string): Promise<never> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': '"a"' }
  for (const _ of ['first', 'retry']) {
    const answer = await fetch(url, { method: 'POST', headers, body: '{"orderId":"a"}' })
    assert.equal(answer.status, 201)
    assert.deepEqual(await answer.json(), { payload: { orderId: 'a' }, runs: 1 })
  }
  await charge.close()
  await pool.end()
  console.log('proved')
  process.exit(0)
}
