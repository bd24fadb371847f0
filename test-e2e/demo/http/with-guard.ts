import { createHttpGuard } from '@onceward/http'
import { expressRoute } from '@onceward/http/express'
import { pgInbox } from '@onceward/postgres/pg'
import express from 'express'
import { Pool } from 'pg'
import { chargeOrder, type OrderPlaced } from '../order.ts'
import { settings } from './settings.ts'

const { databaseUrl, port } = settings()
const pool = new Pool({ connectionString: databaseUrl })

const nothing = (): void => undefined
const errorsOnly = { debug: nothing, info: nothing, warn: nothing, error: console.error }

const charge = createHttpGuard(
  { consumer: 'charges.create', inbox: pgInbox(pool), tenant: 'none', logger: errorsOnly },
  async ({ payload, idempotencyKey }, { tx }) => {
    await chargeOrder(tx, payload as OrderPlaced)
    return { status: 201, body: { chargeId: idempotencyKey } }
  },
)

const app = express()
app.post('/charges', expressRoute(charge))
app.listen(port, '127.0.0.1', () => process.send?.({ kind: 'listening' }))
