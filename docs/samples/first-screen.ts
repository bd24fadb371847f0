import { SQSClient } from '@aws-sdk/client-sqs'
import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'
import { z } from 'zod'

const schema = z.object({ orderId: z.string(), cents: z.int() })
const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const billing = createGuard(
  { consumer: 'billing', inbox, schema, eventKey: (e) => e.payload.orderId },
  async ({ payload: { orderId, cents } }, { tx }) => {
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  },
)
await consumeSqs(new SQSClient(), billing, { queueUrl: process.env.QUEUE_URL ?? '' })
