import { expressRoute } from '@onceward/http/express'
import { createWebhookGuard, stripeSignature } from '@onceward/http/webhooks'
import { pgInbox } from '@onceward/postgres/pg'
import express from 'express'
import { z } from 'zod'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const schema = z.object({ data: z.object({ orderId: z.string(), cents: z.int() }) })
const verify = stripeSignature(process.env.SIGNING_SECRET ?? '')
const options = { consumer: 'webhooks.stripe', inbox, schema, verify, run: 'later' } as const
const paid = createWebhookGuard(options, async ({ payload: { data } }, { tx }) => {
  const values = [data.orderId, data.cents]
  await tx.query('insert into charges (order_id, cents) values ($1, $2)', values)
})
const app = express().post('/webhooks', expressRoute(paid))
app.get('/health', (_request, response) => void response.json(paid.health().waiting ?? {}))
const server = app.listen(Number(process.env.PORT))
process.once('SIGTERM', () => server.close(() => void paid.close()))
