import { Redis } from 'ioredis'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const redis = new Redis(process.env.REDIS_URL ?? '')
const stream = process.env.STREAM ?? 'orders'
await redis.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM').catch(() => undefined)

type Reply = [stream: string, entries: [id: string, fields: string[]][]][] | null
const options = ['GROUP', 'billing', 'billing-1', 'COUNT', 10, 'BLOCK', 1000] as const
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
while (!stop.signal.aborted) {
  const reply = (await redis.xreadgroup(...options, 'STREAMS', stream, '>')) as Reply
  for (const [id, fields] of reply?.[0]?.[1] ?? []) {
    const { orderId, cents } = JSON.parse(fields[fields.indexOf('payload') + 1] ?? '')
    await pool.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    await redis.xack(stream, 'billing', id)
    await redis.xdel(stream, id)
  }
}
await pool.end()
redis.disconnect()
