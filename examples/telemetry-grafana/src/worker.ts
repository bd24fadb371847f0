import { createGuard, drainOnSignals, FatalError } from '@onceward/core'
import { meterConsumptions, meterObserver, traced } from '@onceward/otel'
import { healthServer } from '@onceward/otel/health'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'
import { Pool } from 'pg'
import { z } from 'zod'
import { databaseUrl, healthPort, queueUrl, sqs } from './settings.ts'
import { exporter } from './telemetry.ts'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

const pool = new Pool({ connectionString: databaseUrl })
const billing = createGuard(
  {
    consumer: 'billing',
    inbox: pgInbox(pool),
    schema: OrderPlaced,
    eventKey: ({ payload }) => payload.orderId,
    observe: meterObserver(),
  },
  // A span for each run. Without a tracer it costs nothing.
  traced(async ({ payload: { orderId, cents } }, { tx }) => {
    if (cents < 0) throw new FatalError('a charge is never negative')
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  }),
)

const orders = await consumeSqs(sqs, billing, {
  queueUrl: await queueUrl(),
  longPollMs: 5_000,
})
meterConsumptions({ orders })
// /livez and /readyz for the platform, /metrics for Prometheus.
const health = await healthServer({
  consumptions: { orders },
  guards: [billing],
  port: healthPort,
  metrics: exporter.getMetricsRequestHandler.bind(exporter),
})
console.log(`metrics on http://localhost:${healthPort}/metrics`)
await drainOnSignals(orders)
await health.close()
await billing.close()
await pool.end()
