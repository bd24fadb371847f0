import { consumeAmqp } from '@onceward/amqp'
import { drainOnSignals } from '@onceward/core'
import { connect } from 'amqplib'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'
import { databaseUrl, queue, rabbitUrl, redisUrl } from './settings.ts'

console.log(`worker ${process.pid}`)

const pool = new Pool({ connectionString: databaseUrl })
const redis = new Redis(redisUrl)
redis.on('error', () => undefined) // The guard goes to Postgres meanwhile, and says so.
const billing = createBilling(pool, redis)
// A function: after a lost connection it is called again.
const consumption = await consumeAmqp(() => connect(rabbitUrl), billing, {
  queue,
  deadLetter: { queue: `${queue}.dead` },
})
// SIGTERM and Ctrl-C: running handlers end, and nothing new begins.
await drainOnSignals(consumption)
await billing.close()
redis.disconnect()
await pool.end()
