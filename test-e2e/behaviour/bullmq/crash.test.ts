import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { migrate } from '@onceward/postgres'
import { database, redis as redisServer, until } from '@onceward/testing'
import { createPostgresBackend, type Job, Queue, runMigrations, withBackend } from 'bullmq'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { WorkerSettings } from './worker-main.ts'

const WORKER = fileURLToPath(new URL('./worker-main.ts', import.meta.url))
const ORDERS = 20

let pool: pg.Pool
let postgres: string
let redis: Awaited<ReturnType<typeof redisServer>>

beforeAll(async () => {
  postgres = (await database()).url
  pool = new pg.Pool({ connectionString: postgres, max: 3 })
  redis = await redisServer()
  await migrate(pool)
  const client = await pool.connect()
  await runMigrations(client)
  client.release()
})
afterAll(async () => {
  await pool.end()
  await redis.stop()
})

function startWorker(settings: WorkerSettings): ChildProcess {
  const args = ['--conditions=@onceward/source', WORKER, JSON.stringify(settings)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

describe.each(['Redis', 'PostgreSQL'] as const)('BullMQ on %s', (where) => {
  test.each(['in the handler', 'before the completion'] as const)(
    'a worker that is killed %s: each order is charged once, and each job has its return value',
    async (dies) => {
      await pool.query('drop table if exists charges')
      await pool.query('create table charges (order_id text)')
      const queueName = `crash-${where}-${dies.replaceAll(' ', '-')}`
      const queue = where === 'Redis' ? onRedis(queueName) : onPostgres(queueName)
      onTestFinished(() => queue.close())
      const jobs = await queue.addBulk(
        Array.from({ length: ORDERS }, (_, n) => ({
          name: 'charge',
          data: { order: `${where} ${dies} ${n}` },
        })),
      )
      const settings = {
        queue: queueName,
        postgres,
        redis: where === 'Redis' ? redis.connection.url : undefined,
      }
      const killed = startWorker({ ...settings, dies })
      expect(await once(killed, 'exit')).toEqual([null, 'SIGKILL'])
      startWorker({ ...settings, dies: undefined })
      await until(async () => (await queue.getCompletedCount()) === ORDERS, { deadlineMs: 60_000 })
      const { rows } = await pool.query('select order_id from charges')
      expect(rows.map(({ order_id }) => order_id).toSorted()).toEqual(
        jobs.map(({ data }) => data.order).toSorted(),
      )
      const ended = (await queue.getCompleted()) as Job[]
      for (const { data, returnvalue } of ended) expect(returnvalue).toEqual({ order: data.order })
    },
  )
})

const onRedis = (name: string): Queue =>
  new Queue(name, { connection: { url: redis.connection.url } })

function onPostgres(name: string): Queue {
  const own = new pg.Pool({ connectionString: postgres, max: 3, options: '-c search_path=bullmq' })
  const onPostgres = withBackend(createPostgresBackend)
  return new onPostgres.Queue(name, { connection: own as never }) as unknown as Queue
}
