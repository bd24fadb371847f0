import { drainOnSignals } from '@onceward/core'
import { consumeSqs } from '@onceward/sqs'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'
import { databaseUrl, queueUrl, sqs } from './settings.ts'

console.log(`worker ${process.pid}`)

const pool = new Pool({ connectionString: databaseUrl })
const billing = createBilling(pool)
const consumption = await consumeSqs(sqs, billing, {
  queueUrl: await queueUrl(),
  // An idle worker ends within this time.
  longPollMs: 5_000,
})
// SIGTERM and Ctrl-C: running handlers end, and nothing new begins.
await drainOnSignals(consumption)
await billing.close()
await pool.end()
