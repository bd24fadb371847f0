import middy from '@middy/core'
import { createBatchGuard, createGuard, type GuardEvent, unwrapEventBridge } from '@onceward/core'
import {
  type LambdaEventBridgeHandler,
  type LambdaKafkaHandler,
  type LambdaSnsHandler,
  type LambdaSqsHandler,
  lambdaEventBridge,
  lambdaKafka,
  lambdaSns,
  lambdaSqs,
} from '@onceward/lambda'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import type { Handler, SQSBatchResponse, SQSEvent } from 'aws-lambda'
import { Redis } from 'ioredis'
import pg from 'pg'

/** What a message asks of the handler. */
export interface Charge {
  readonly id: string
  /** Milliseconds that the handler takes, whatever its signal says. */
  readonly takesMs?: number
  /** The attempts that fail. */
  readonly failures?: number
  /** The attempt that never ends: only a kill ends it. */
  readonly hangsAt?: number
}

const config = JSON.parse(process.env['FUNCTION_CONFIG'] ?? '{}') as {
  readonly databaseUrl: string
  readonly redisPort: number
  readonly connections: number
  readonly leaseMs: number
}

const pool = new pg.Pool({ connectionString: config.databaseUrl, max: config.connections })
const redis = new Redis(config.redisPort)
const options = {
  inbox: pgInbox(pool),
  leases: redisLeases(redis),
  leaseMs: config.leaseMs,
  retry: { baseMs: 10, maxMs: 50 },
  logger: { debug() {}, info() {}, warn: console.error, error: console.error },
}

async function charge(event: GuardEvent<unknown>, tx: pg.PoolClient): Promise<void> {
  const { id, failures = 0, hangsAt, takesMs = 0 } = event.payload as Charge
  await tx.query('insert into effects (id, source) values ($1, $2)', [id, event.source.broker])
  if (event.attempt === hangsAt) {
    console.log(`${id} hangs`)
    await new Promise(() => undefined)
  }
  if (takesMs > 0) await new Promise((resolve) => setTimeout(resolve, takesMs))
  if (event.attempt <= failures) throw new Error('not now')
  await tx.query('insert into effects (id, source) values ($1, $2)', [`${id} after`, 'handler'])
}

const billing = createGuard({ ...options, consumer: 'billing' }, (event, { tx }) =>
  charge(event, tx),
)
const bridged = createGuard(
  { ...options, consumer: 'bridged', decode: unwrapEventBridge() },
  (event, { tx }) => charge(event, tx),
)
const together = createBatchGuard({ ...options, consumer: 'together' }, async (events, { tx }) => {
  for (const event of events) await charge(event, tx)
})

export const sqs: LambdaSqsHandler = lambdaSqs(billing, { marginMs: 2_000 })
export const behindMiddy: Handler = middy<SQSEvent, SQSBatchResponse>().handler(lambdaSqs(billing))
export const batches: LambdaSqsHandler = lambdaSqs(together)
export const kafka: LambdaKafkaHandler = lambdaKafka(billing)
export const sns: LambdaSnsHandler = lambdaSns(billing)
export const eventBridge: LambdaEventBridgeHandler = lambdaEventBridge(bridged)
