import { expressRoute } from '@onceward/http/express'
import { createWebhookGuard, stripeSignature } from '@onceward/http/webhooks'
import { pgInbox } from '@onceward/postgres/pg'
import express from 'express'
import { z } from 'zod'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const schema = z.object({ data: z.object({ orderId: z.string(), cents: z.int() }) })
const verify = stripeSignature(process.env.SIGNING_SECRET ?? '')
const options = { consumer: 'webhooks.stripe', inbox, schema, verify }
const paid = createWebhookGuard(options, async ({ payload: { data } }, { tx }) => {
  const values = [data.orderId, data.cents]
  await tx.query('insert into charges (order_id, cents) values ($1, $2)', values)
})
express().post('/webhooks', expressRoute(paid)).listen(Number(process.env.PORT))
