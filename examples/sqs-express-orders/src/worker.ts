import { consumeSqs } from '@onceward/sqs'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'
import { databaseUrl, queueUrl, sqs } from './settings.ts'

console.log(`worker ${process.pid}`)
const stop = new AbortController()
for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort())

const pool = new Pool({ connectionString: databaseUrl })
const billing = createBilling(pool)
const consumption = await consumeSqs(sqs, billing, {
  queueUrl: await queueUrl(),
  // An idle worker ends within this time.
  longPollMs: 5_000,
  signal: stop.signal,
})
await consumption.stopped
await billing.close()
await pool.end()
