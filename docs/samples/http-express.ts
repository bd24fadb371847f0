import { createHttpGuard } from '@onceward/http'
import { expressRoute } from '@onceward/http/express'
import { pgInbox } from '@onceward/postgres/pg'
import express from 'express'
import { z } from 'zod'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const schema = z.object({ orderId: z.string(), cents: z.int() })
const tenant = (request: { headers: Headers }) => request.headers.get('x-account') ?? undefined
const options = { consumer: 'charges.create', inbox, schema, tenant }
const charge = createHttpGuard(options, async ({ payload: { orderId, cents } }, { tx }) => {
  await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  return { status: 201, body: { orderId, charged: cents } }
})
express().post('/charges', expressRoute(charge)).listen(Number(process.env.PORT))
