import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { Pool } from 'pg'
import { Stripe } from 'stripe'
import { createApp } from '../src/app.ts'
import { databaseUrl, signingSecret } from '../src/settings.ts'
import { createStripeWebhook } from '../src/webhook.ts'

const pool = new Pool({ connectionString: databaseUrl })
const webhook = createStripeWebhook(pool)
const server = createApp(webhook).listen(0)

before(() => {
  execFileSync(process.execPath, ['src/setup.ts'])
})
after(async () => {
  server.close()
  await webhook.close()
  await pool.end()
})

/** Delivers as Stripe does, signed by Stripe's own package. */
async function deliver(event: object, secret: string): Promise<number> {
  const payload = JSON.stringify(event)
  const signature = new Stripe('sk_test_none').webhooks.generateTestHeaderString({
    payload,
    secret,
  })
  if (!server.listening) await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const headers = { 'stripe-signature': signature, 'content-type': 'application/json' }
  const url = `http://localhost:${port}/webhooks/stripe`
  return (await fetch(url, { method: 'POST', headers, body: payload })).status
}

const completed = (orderId: string) => ({
  id: `evt_${randomUUID()}`,
  type: 'checkout.session.completed',
  data: { object: { amount_total: 1999, metadata: { orderId } } },
})

async function payments(orderId: string): Promise<number> {
  const text = 'select from payments where order_id = $1'
  return (await pool.query(text, [orderId])).rows.length
}

test('an event that Stripe delivers three times, twice at once, pays its order once', async () => {
  const orderId = randomUUID()
  const event = completed(orderId)
  const statuses = await Promise.all([deliver(event, signingSecret), deliver(event, signingSecret)])
  statuses.push(await deliver(event, signingSecret))
  assert.deepEqual(statuses, [200, 200, 200])
  assert.equal(await payments(orderId), 1)
})

test('an event that somebody else signed changes nothing', async () => {
  const orderId = randomUUID()
  assert.equal(await deliver(completed(orderId), 'whsec_somebody_else'), 401)
  assert.equal(await payments(orderId), 0)
})
