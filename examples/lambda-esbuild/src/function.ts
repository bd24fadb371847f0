import { createGuard } from '@onceward/core'
import { type LambdaSqsHandler, lambdaSqs } from '@onceward/lambda'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import { z } from 'zod'
import { databaseUrl } from './settings.ts'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

// A function runs one invocation at a time: two connections are enough.
const pool = new Pool({ connectionString: databaseUrl, max: 2, connectionTimeoutMillis: 5_000 })
const billing = createGuard(
  {
    consumer: 'billing',
    inbox: pgInbox(pool),
    schema: OrderPlaced,
    eventKey: ({ payload }) => payload.orderId,
    concurrency: 1,
  },
  async ({ payload: { orderId, cents } }, { tx }) => {
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  },
)

/** Answers with the messages that are not done: the mapping must have `ReportBatchItemFailures`. */
export const handler: LambdaSqsHandler = lambdaSqs(billing)
