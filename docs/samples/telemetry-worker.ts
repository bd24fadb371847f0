import { SQSClient } from '@aws-sdk/client-sqs'
import { createGuard, drainOnSignals } from '@onceward/core'
import { meterConsumptions, meterObserver, traced } from '@onceward/otel'
import { healthServer } from '@onceward/otel/health'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'
import { Pool } from 'pg'
import { z } from 'zod'
import { exporter } from './telemetry.ts'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createGuard(
  {
    consumer: 'billing',
    inbox: pgInbox(pool),
    schema: OrderPlaced,
    eventKey: ({ payload }) => payload.orderId,
    observe: meterObserver(),
  },
  traced(async ({ payload: { orderId, cents } }, { tx }) => {
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  }),
)

const orders = await consumeSqs(new SQSClient(), billing, {
  queueUrl: process.env.QUEUE_URL ?? '',
})
meterConsumptions({ orders })
const server = await healthServer({
  consumptions: { orders },
  guards: [billing],
  port: Number(process.env.HEALTH_PORT ?? 8080),
  metrics: exporter.getMetricsRequestHandler.bind(exporter),
})
await drainOnSignals(orders)
await server.close()
await billing.close()
await pool.end()
