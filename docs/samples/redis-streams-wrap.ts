import { pgInbox } from '@onceward/postgres/pg'
import { type StreamReply, wrapStream } from '@onceward/redis-streams'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createBilling(pgInbox(pool))
const redis = new Redis(process.env.REDIS_URL ?? '')
const stream = process.env.STREAM ?? 'orders'
await redis.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM').catch(() => undefined)

const consumerName = `billing-${process.pid}`
const handle = wrapStream(redis, billing, { stream, consumerName })
const reader = redis.duplicate()
const options = ['GROUP', 'billing', consumerName, 'COUNT', 10, 'BLOCK', 1000] as const
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
while (!stop.signal.aborted) {
  const reply = await reader.xreadgroupBuffer(...options, 'STREAMS', stream, '>')
  await handle(reply as StreamReply)
}
await handle.consumption.drain()
await billing.close()
await pool.end()
redis.disconnect()
reader.disconnect()
