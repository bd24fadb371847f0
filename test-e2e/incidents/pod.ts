import { SQSClient } from '@aws-sdk/client-sqs'
import { createGuard, FatalError } from '@onceward/core'
import { meterConsumptions, meterObserver } from '@onceward/otel'
import { healthServer } from '@onceward/otel/health'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { consumeSqs } from '@onceward/sqs'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { z } from 'zod'

/** A process of the consumer `billing`, as a platform starts it: all that it needs is in its environment. */
const { DATABASE_URL, DEAD_LETTER_QUEUE_URL, HEALTH_PORT, QUEUE_URL = '', REDIS_URL } = process.env

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const OrderPlaced = z.object({ orderId: z.string(), shop: z.int(), cents: z.int() })

const exporter = new PrometheusExporter({ preventServerStart: true })
const meterProvider = new MeterProvider({ readers: [exporter] })
const pool = new Pool({ connectionString: DATABASE_URL })
// Idle connections end with an error when the server is killed.
pool.on('error', () => undefined)

function leasesOf(url: string): ReturnType<typeof redisLeases> {
  const client = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => 200 })
  client.on('error', () => undefined)
  return redisLeases(client)
}

const billing = createGuard(
  {
    ...{ consumer: 'billing', inbox: pgInbox(pool), schema: OrderPlaced, logger: silent },
    leases: REDIS_URL === undefined ? undefined : leasesOf(REDIS_URL),
    eventKey: ({ payload }) => payload.orderId,
    observe: meterObserver({ meterProvider, figuresEveryMs: 1_000 }),
  },
  async ({ payload: { cents, orderId, shop } }, { tx }) => {
    const { rowCount } = await tx.query(
      'update accounts set balance = balance - $1 where shop = $2',
      [cents, shop],
    )
    if (rowCount === 0) throw new FatalError(`shop ${shop} has no account`)
    await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  },
)

const consumptions = {
  billing: await consumeSqs(new SQSClient(), billing, {
    queueUrl: QUEUE_URL,
    deadLetter:
      DEAD_LETTER_QUEUE_URL === undefined ? undefined : { queueUrl: DEAD_LETTER_QUEUE_URL },
    longPollMs: 1_000,
  }),
}
meterConsumptions(consumptions, { meterProvider })
await healthServer({
  ...{ consumptions, guards: [billing], host: '127.0.0.1', port: Number(HEALTH_PORT) },
  metrics: exporter.getMetricsRequestHandler.bind(exporter),
})
process.stdout.write('ready\n')
