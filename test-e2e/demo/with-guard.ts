import { createGuard, type GuardEvent } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { BROKERS } from '../brokers/index.ts'
import { chargeOrder, type OrderPlaced } from './order.ts'
import { settings } from './settings.ts'

const { databaseUrl, broker, address, redisUrl } = settings()
const pool = new Pool({ connectionString: databaseUrl })

const redis = redisUrl === undefined ? undefined : new Redis(redisUrl)
// ioredis reconnects by itself, and prints every error if there is no listener.
redis?.on('error', () => undefined)

// The kills cause warnings, and a busy machine too. The parent reports what is wrong.
const nothing = (): void => undefined
const errorsOnly = { debug: nothing, info: nothing, warn: nothing, error: console.error }

const billing = createGuard(
  {
    consumer: 'billing',
    inbox: pgInbox(pool),
    leases: redis && redisLeases(redis),
    leaseMs: 1_000,
    deadlineMs: 10_000,
    logger: errorsOnly,
  },
  (event: GuardEvent<OrderPlaced>, { tx }) => chargeOrder(tx, event.payload),
)

const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
const { guarded } = await BROKERS[broker].demo()
await guarded({ address, billing, signal: stop.signal })

await billing.close()
await pool.end()
redis?.disconnect()
process.disconnect()
