import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Pool } from 'pg'
import { createApp, createCharges } from '../src/app.ts'
import { databaseUrl } from '../src/settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
const charges = createCharges(pool)
const app = createApp(charges)

before(() => {
  execFileSync(process.execPath, ['src/setup.ts'])
})
after(async () => {
  await charges.close()
  await pool.end()
})

async function post(key: string, charge: { orderId: string; cents: number }): Promise<Response> {
  const headers = {
    'content-type': 'application/json',
    'x-account': 'acme',
    'idempotency-key': key,
  }
  const body = JSON.stringify(charge)
  while (true) {
    const answer = await app.request('/charges', { method: 'POST', headers, body })
    // The first request is still running. A client waits and sends its request again.
    if (answer.status !== 409) return answer
    await setTimeout(Number(answer.headers.get('retry-after')) * 1_000)
  }
}

async function charged(orderId: string): Promise<number> {
  const text = 'select from charges where order_id = $1'
  return (await pool.query(text, [orderId])).rows.length
}

test('a client that sends its request three times, twice at once, is charged once', async () => {
  const [key, orderId] = [randomUUID(), randomUUID()]
  const order = { orderId, cents: 1999 }
  const [first, copy] = await Promise.all([post(key, order), post(key, order)])
  const later = await post(key, order)

  assert.deepEqual(
    [first, copy, later].map(({ status }) => status),
    [201, 201, 201],
  )
  assert.equal(later.headers.get('idempotency-replayed'), 'true')
  assert.deepEqual(await later.json(), { orderId, charged: 1999 })
  assert.equal(await charged(orderId), 1)
})

test('a key that comes with another request is refused', async () => {
  const [key, orderId] = [randomUUID(), randomUUID()]
  assert.equal((await post(key, { orderId, cents: 1 })).status, 201)
  assert.equal((await post(key, { orderId, cents: 2 })).status, 422)
  assert.equal(await charged(orderId), 1)
})

test('a declined card is the answer, for retries too', async () => {
  const [key, orderId] = [randomUUID(), randomUUID()]
  const statuses = [
    await post(key, { orderId, cents: 100_001 }),
    await post(key, { orderId, cents: 100_001 }),
  ]
  assert.deepEqual(
    statuses.map(({ status }) => status),
    [402, 402],
  )
  assert.equal(await charged(orderId), 0)
})
