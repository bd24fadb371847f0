import { migrate } from '@onceward/postgres'
import { consumeStream } from '@onceward/redis-streams'
import { postgres, redis } from '@onceward/testing/servers'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import {
  createEffects,
  DURABLE,
  decode,
  deliveryOf,
  inTransaction,
  type Order,
  toDelivery,
  write,
} from '../load/effects.ts'
import { processed, roundGuard, warm } from '../load/round-guard.ts'
import { processorMeter } from '../runner/processor-time.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternateMetered,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  processorTimes,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

const GROUP = 'billing'
/** Entries that the bare loop reads at once; twice as many are in flight. */
const MOST = 16
const READERS = 2

/** A stream that is consumed by consumeStream and by a hand-written XREADGROUP loop. */
export async function redisStreamsBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using streams = await redis()
  await using testbed = await openTestbed(await server.createDatabase(), streams.connection.url)
  await migrate(testbed.pool)
  await createEffects(testbed.pool)
  const contestants = [
    bareLoop(testbed),
    guardedLoop(testbed),
    guarded(testbed, 'each'),
    guarded(testbed, 'batch'),
  ]
  const meter = await processorMeter(testbed.pool)
  const { rates, costs } = await alternateMetered(contestants, scale, () => meter)
  return {
    name: 'redis-streams',
    unit: 'events/s',
    values: {
      ...Object.fromEntries([...rates].map(([name, round]) => [name, median(round)])),
      ...processorTimes(costs),
    },
    ratios: {
      'redis-streams': ratioOf(rates, 'each', 'bare-loop'),
      'redis-streams-batch': ratioOf(rates, 'batch', 'bare-loop'),
      'redis-streams-of-own-loop': ratioOf(rates, 'each', 'guard-in-own-loop'),
    },
    goals: [
      { name: 'redis-streams', least: 0.75 },
      { name: 'redis-streams-batch', least: 2 },
    ],
  }
}

interface Testbed extends AsyncDisposable {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly redis: Redis
}

async function openTestbed(databaseUrl: string, url: string): Promise<Testbed> {
  const pool = new Pool({ connectionString: databaseUrl, max: CONCURRENCY })
  pool.on('error', () => undefined)
  const client = new Redis(url)
  return {
    ...{ pool, databaseUrl, redis: client },
    [Symbol.asyncDispose]: async () => {
      client.disconnect()
      await pool.end()
    },
  }
}

interface Entry {
  readonly id: string
  readonly key: string
  readonly body: string
}

interface Handling {
  handle(entry: Entry): Promise<void>
  close?(): Promise<void>
}

/** A loop that acks and deletes what was handled. */
function byHand(name: string, { redis }: Testbed, prepare: () => Promise<Handling>): Contestant {
  return {
    name,
    prepare: async (events) => {
      const stream = await filledStream(redis, events)
      const { handle, close } = await prepare()
      let left = events
      const read = async (_: unknown, consumer: number): Promise<void> => {
        const reader = redis.duplicate()
        while (left > 0) {
          const entries = await readEntries(reader, stream, `consumer-${consumer}`)
          await Promise.all(entries.map(handle))
          const ids = entries.map(({ id }) => id)
          if (ids.length > 0) {
            await redis
              .pipeline()
              .xack(stream, GROUP, ...ids)
              .xdel(stream, ...ids)
              .exec()
          }
          left -= ids.length
        }
        reader.disconnect()
      }
      return async () => {
        const startedAt = performance.now()
        await Promise.all(Array.from({ length: READERS }, read))
        const tookMs = performance.now() - startedAt
        await close?.()
        return tookMs
      }
    },
  }
}

const bareLoop = (testbed: Testbed): Contestant =>
  byHand('bare-loop', testbed, async () => {
    const { pool } = testbed
    await warm((delivery) => inTransaction(pool, (tx) => write(tx, decode(delivery))))
    return {
      handle: async ({ body }) => {
        const order: Order = JSON.parse(body)
        await inTransaction(pool, (tx) => write(tx, order))
      },
    }
  })

/** The guard without the adapter. */
const guardedLoop = (testbed: Testbed): Contestant =>
  byHand('guard-in-own-loop', testbed, async () => {
    const guard = await roundGuard({ connectionString: testbed.databaseUrl })
    return {
      handle: ({ body, key }) => processed(guard, deliveryOf(Buffer.from(body), key)),
      close: () => guard.close(),
    }
  })

function guarded({ databaseUrl, redis }: Testbed, transaction: 'each' | 'batch'): Contestant {
  return {
    name: transaction,
    prepare: async (events) => {
      const stream = await filledStream(redis, events)
      const guard = await roundGuard({ connectionString: databaseUrl, transaction })
      return async () => {
        const startedAt = performance.now()
        const consumption = await consumeStream(redis, guard, { stream, group: GROUP })
        while ((await redis.xlen(stream)) > 0) await new Promise((again) => setTimeout(again, 5))
        const tookMs = performance.now() - startedAt
        await consumption.drain()
        await guard.close()
        return tookMs
      }
    },
  }
}

async function readEntries(
  reader: Redis,
  stream: string,
  consumer: string,
): Promise<readonly Entry[]> {
  const options = ['GROUP', GROUP, consumer, 'COUNT', MOST, 'BLOCK', 100] as const
  const reply = await reader.xreadgroup(...options, 'STREAMS', stream, '>')
  const [[, entries] = ['', []]] = (reply ?? []) as [string, [string, string[]][]][]
  return entries.map(([id, [, key = '', , body = '']]) => ({ id, key, body }))
}

let streams = 0

async function filledStream(redis: Redis, events: number): Promise<string> {
  streams += 1
  const stream = `bench-${streams}`
  await redis.xgroup('CREATE', stream, GROUP, '0', 'MKSTREAM')
  const all = Array.from({ length: events }, toDelivery)
  await inLanes(all, 64, async ({ body, headers }) => {
    const key = headers['idempotency-key'] ?? ''
    await redis.xadd(stream, '*', 'idempotency-key', key, 'payload', Buffer.from(body))
  })
  return stream
}
