import { consumeAmqp } from '@onceward/amqp'
import { connect } from 'amqplib'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'
import { databaseUrl, queue, rabbitUrl, redisUrl } from './settings.ts'

console.log(`worker ${process.pid}`)
const stop = new AbortController()
for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort())

const pool = new Pool({ connectionString: databaseUrl })
const redis = new Redis(redisUrl)
redis.on('error', () => undefined) // The guard goes to Postgres meanwhile, and says so.
const billing = createBilling(pool, redis)
// A function: after a lost connection it is called again.
const consumption = await consumeAmqp(() => connect(rabbitUrl), billing, {
  queue,
  deadLetter: { queue: `${queue}.dead` },
  signal: stop.signal,
})
await consumption.stopped
await billing.close()
redis.disconnect()
await pool.end()
