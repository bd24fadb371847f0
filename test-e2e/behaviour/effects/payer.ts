/*
 * A worker whose effect is a call to a payment API: the guard of docs/samples/effects-outside.ts in a process that can
 * be killed. Its deliveries come from the test, over IPC.
 */
import type { LeaseStore } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { dynamoLeases } from '@onceward/dynamodb'
import { postgresLeases } from '@onceward/postgres'
import { redisLeases } from '@onceward/redis'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { createPayments } from '../../../docs/samples/effects-outside.ts'
import { dynamoAt } from '../../../packages/dynamodb/src/fixtures/dynalite.ts'
import { dyingLeases } from './dying-leases.ts'
import type { Order, PayerConfig } from './protocol.ts'

const config = JSON.parse(process.argv[2] ?? '{}') as PayerConfig
const payments = createPayments({
  ...config,
  leases: dyingLeases(leasesIn(config.store), config.dies),
  leaseMs: 1_000,
})

function leasesIn(store: PayerConfig['store']): LeaseStore {
  if (store.kind === 'redis') return redisLeases(new Redis(store.port))
  if (store.kind === 'postgres') {
    return postgresLeases(new Pool({ connectionString: store.url }))
  }
  const { table } = store
  return dynamoLeases(dynamoAt(store.endpoint), { table, clockSkewMs: 100 })
}

async function pay(order: Order): Promise<void> {
  process.send?.(await payments.process(toDelivery(order, { messageId: order.orderId })))
}

process.on('message', (order: Order) => void pay(order))
process.on('disconnect', () => process.exit())
