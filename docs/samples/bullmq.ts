import { once } from 'node:events'
import { bullmqProcessor } from '@onceward/bullmq'
import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { Worker } from 'bullmq'
import { Pool } from 'pg'
import { z } from 'zod'

const Order = z.object({ orderId: z.string(), cents: z.int() })

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createGuard(
  {
    ...{ consumer: 'billing', inbox: pgInbox(pool), schema: Order },
    eventKey: ({ payload }) => payload.orderId,
  },
  async ({ payload: { orderId, cents } }, { tx }) => {
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    return { charged: cents }
  },
)
const connection = { url: process.env.REDIS_URL ?? '', maxRetriesPerRequest: null }
// One less than the attempts of the guard.
const options = { connection, concurrency: 10, maxStalledCount: 4 }
const worker = new Worker('orders', bullmqProcessor(billing), options)
await once(process, 'SIGTERM')
await worker.close()
await billing.close()
await pool.end()
