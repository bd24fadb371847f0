import { SQSClient } from '@aws-sdk/client-sqs'
import { createGuard, drainOnSignals } from '@onceward/core'
import { kyselyInbox } from '@onceward/postgres/kysely'
import { consumeSqs } from '@onceward/sqs'
import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import { z } from 'zod'

interface Database {
  accounts: { id: number; balance: string }
  charges: { order_id: string; cents: number }
}

const OrderPlaced = z.object({ orderId: z.string(), accountId: z.int(), cents: z.int() })

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
const billing = createGuard(
  {
    consumer: 'billing',
    inbox: kyselyInbox(db, { poolSize: pool.options.max }),
    schema: OrderPlaced,
    eventKey: ({ payload }) => payload.orderId,
  },
  async ({ payload: { orderId, accountId, cents } }, { tx }) => {
    await tx
      .updateTable('accounts')
      .set((eb) => ({ balance: eb('balance', '-', String(cents)) }))
      .where('id', '=', accountId)
      .executeTakeFirstOrThrow()
    await tx.insertInto('charges').values({ order_id: orderId, cents }).execute()
  },
)

const queueUrl = process.env.QUEUE_URL ?? ''
await drainOnSignals(await consumeSqs(new SQSClient(), billing, { queueUrl }))
await billing.close()
await db.destroy()
