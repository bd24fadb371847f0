import { SQSClient } from '@aws-sdk/client-sqs'
import { type Consumption, createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'
import type { ProveEnv } from 'onceward/prove'
import { Pool } from 'pg'
import { z } from 'zod'

const Order = z.object({ orderId: z.string(), cents: z.int() })
const pool = new Pool({ connectionString: process.env.DATABASE_URL })

/** Your consumer, as in production. */
export async function start({ queueUrl, leaseMs }: ProveEnv<'sqs'>): Promise<Consumption> {
  const billing = createGuard(
    {
      ...{ consumer: 'billing', inbox: pgInbox(pool), schema: Order, leaseMs },
      eventKey: ({ payload }) => payload.orderId,
    },
    async ({ payload: { orderId, cents } }, { tx }) => {
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    },
  )
  return consumeSqs(new SQSClient(), billing, { queueUrl })
}

/** The body of the n-th event. */
export const event = (n: number): z.infer<typeof Order> => ({ orderId: `order-${n}`, cents: n })

/** How many effects each event has. The table has no key that would hide a second one. */
export async function count(): Promise<Record<string, number>> {
  const sql = 'select order_id, count(*)::int as charges from charges group by order_id'
  const { rows } = await pool.query<{ order_id: string; charges: number }>(sql)
  return Object.fromEntries(rows.map(({ order_id, charges }) => [order_id, charges]))
}

/** The database is empty: create your tables, or run your migrations. */
export async function setup(): Promise<void> {
  await pool.query('create table charges (order_id text not null, cents int not null)')
}
