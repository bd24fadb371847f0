import { createGuard, type GuardEvent } from '@onceward/core'
import { webhookDestination } from '@onceward/http/webhooks'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import { BROKERS } from '../brokers/index.ts'
import { chargeOrder, type OrderPlaced } from './order.ts'
import { settings } from './settings.ts'
import { tell } from './signals.ts'

const { accounting, address, broker, databaseUrl } = settings()
if (accounting === undefined) throw new Error('expected the address of the accounting')
const pool = new Pool({ connectionString: databaseUrl })

// The kills cause warnings, and a busy machine too. The parent reports what is wrong.
const nothing = (): void => undefined
const logger = { debug: nothing, info: nothing, warn: nothing, error: console.error }

const billing = createGuard(
  {
    ...{ consumer: 'billing', inbox: pgInbox(pool), deadlineMs: 10_000, logger },
    afterCommit: () => tell({ kind: 'before-announcement' }),
  },
  async ({ payload }: GuardEvent<OrderPlaced>, { outbox, tx }) => {
    await chargeOrder(tx, payload)
    outbox.send({ to: 'accounting', payload: { orderId: payload.orderId } })
  },
)
const destinations = { accounting: webhookDestination(accounting) }
const relay = await startRelay({ pool, destinations, logger, leaseMs: 2_000 })

const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
const { guarded } = await BROKERS[broker].demo()
await guarded({ address, billing, signal: stop.signal })

await billing.close()
await relay.drain()
await pool.end()
process.disconnect()
