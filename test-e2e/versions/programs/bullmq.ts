import assert from 'node:assert/strict'
import { once } from 'node:events'
import { bullmqDestination, bullmqProcessor } from '@onceward/bullmq'
import { createGuard, FatalError } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { Queue, QueueEvents, Worker } from 'bullmq'
import pg from 'pg'
import { env } from './env.ts'

const pool = new pg.Pool({ connectionString: env('DATABASE_URL'), max: 4 })
await migrate(pool)
await pool.query('create table charges (order_id text)')
const guard = createGuard(
  {
    ...{ consumer: 'billing', inbox: pgInbox(pool), retry: { baseMs: 0 } },
    eventKey: ({ payload }) => (payload as { readonly order: string }).order,
  },
  async ({ attempt, payload }, { tx }) => {
    const { order } = payload as { readonly order: string }
    await tx.query('insert into charges values ($1)', [order])
    if (order === 'fatal') throw new FatalError('no such order')
    if (attempt === 1) throw new Error('not yet')
    return { order }
  },
)
const { hostname: host, port } = new URL(env('REDIS_URL'))
const connection = { host, port: Number(port), maxRetriesPerRequest: null }
// Both versions have one Redis.
const name = `orders-${process.pid}`
const queue = new Queue(name, { connection })
const events = new QueueEvents(name, { connection })
await events.waitUntilReady()
const worker = new Worker(name, bullmqProcessor(guard), { connection, maxStalledCount: 4 })
worker.on('error', () => undefined)

const first = await queue.add('place', { order: 'a' })
assert.deepEqual(await first.waitUntilFinished(events), { order: 'a' })
const copy = await queue.add('place', { order: 'a' })
assert.deepEqual(await copy.waitUntilFinished(events), { order: 'a' })

const fatal = await queue.add('place', { order: 'fatal' }, { attempts: 3 })
const failing = await fatal.waitUntilFinished(events).catch((error: Error) => error.message)
assert.match(String(failing), /dead \(fatal\)/)

const completed = once(worker, 'completed')
const message = { id: 'm-1', source: 'test', type: 'place', contentType: 'application/json' }
const payload = Buffer.from('{"order":"b"}')
const sent = bullmqDestination(queue).publish(
  [{ ...message, headers: {}, payload }],
  new AbortController().signal,
)
assert.deepEqual(await sent, [undefined])
await completed

const { rows } = await pool.query('select order_id from charges order by 1')
assert.deepEqual(rows, [{ order_id: 'a' }, { order_id: 'b' }])
await worker.close()
await events.close()
await queue.close()
await guard.close()
await pool.end()
console.log('proved')
