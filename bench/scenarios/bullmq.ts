import { bullmqProcessor } from '@onceward/bullmq'
import { migrate } from '@onceward/postgres'
import { postgres, redis } from '@onceward/testing/servers'
import { type Processor, Queue, Worker } from 'bullmq'
import { Pool } from 'pg'
import {
  createEffects,
  DURABLE,
  decode,
  inTransaction,
  type Order,
  toDelivery,
  write,
} from '../load/effects.ts'
import { roundGuard, warm } from '../load/round-guard.ts'
import { processorMeter } from '../runner/processor-time.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternateMetered,
  CONCURRENCY,
  type Contestant,
  median,
  processorTimes,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

/** A worker of BullMQ on Redis, with a handler by hand and with a guard. */
export async function bullmqBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using jobs = await redis()
  const databaseUrl = await server.createDatabase()
  const pool = new Pool({ connectionString: databaseUrl, max: CONCURRENCY })
  pool.on('error', () => undefined)
  await migrate(pool)
  await createEffects(pool)
  const testbed = { pool, databaseUrl, redisUrl: jobs.connection.url }
  const contestants = [bare(testbed), guarded(testbed)]
  const meter = await processorMeter(pool)
  const { rates, costs } = await alternateMetered(contestants, scale, () => meter)
  await pool.end()
  return {
    name: 'bullmq',
    unit: 'events/s',
    values: {
      ...Object.fromEntries([...rates].map(([name, round]) => [name, median(round)])),
      ...processorTimes(costs),
    },
    ratios: { bullmq: ratioOf(rates, 'each', 'bare-worker') },
    goals: [{ name: 'bullmq', least: 0.75 }],
  }
}

interface Testbed {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly redisUrl: string
}

interface Handling {
  readonly processor: Processor<Order>
  close?(): Promise<void>
}

/** One worker that completes all jobs of a queue of its own. */
const working = (
  name: string,
  { redisUrl }: Testbed,
  open: () => Promise<Handling>,
): Contestant => ({
  name,
  prepare: async (events) => {
    const connection = { url: redisUrl, maxRetriesPerRequest: null }
    const queue = await filledQueue(redisUrl, events)
    const { processor, close } = await open()
    const options = { connection, concurrency: CONCURRENCY, autorun: false, maxStalledCount: 9 }
    const worker = new Worker(queue.name, processor, options)
    await worker.waitUntilReady()
    return async () => {
      const startedAt = performance.now()
      const { promise, resolve } = Promise.withResolvers<void>()
      let left = events
      worker.on('completed', () => {
        left -= 1
        if (left === 0) resolve()
      })
      void worker.run()
      await promise
      const tookMs = performance.now() - startedAt
      await worker.close()
      await close?.()
      await queue.obliterate({ force: true })
      await queue.close()
      return tookMs
    }
  },
})

const bare = (testbed: Testbed): Contestant =>
  working('bare-worker', testbed, async () => {
    const { pool } = testbed
    await warm((delivery) => inTransaction(pool, (tx) => write(tx, decode(delivery))))
    return { processor: ({ data }) => inTransaction(pool, (tx) => write(tx, data)) }
  })

/** Each job is a call of the guard of its own, so no two of them share a commit. */
const guarded = (testbed: Testbed): Contestant =>
  working('each', testbed, async () => {
    const guard = await roundGuard({
      connectionString: testbed.databaseUrl,
      eventKey: ({ payload }) => (payload as Order).orderId,
    })
    return { processor: bullmqProcessor(guard), close: () => guard.close() }
  })

/** Jobs of one call, as a producer of many adds them. */
const BULK = 500

let queues = 0

async function filledQueue(url: string, events: number): Promise<Queue<Order>> {
  queues += 1
  const queue = new Queue<Order>(`bench-${queues}`, { connection: { url } })
  for (let added = 0; added < events; added += BULK) {
    const count = Math.min(BULK, events - added)
    await queue.addBulk(
      Array.from({ length: count }, () => ({ name: 'order', data: decode(toDelivery()) })),
    )
  }
  return queue
}
