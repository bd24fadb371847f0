import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers, type NatsConnection } from '@nats-io/transport-node'
import { consumeNats } from '@onceward/nats'
import { migrate } from '@onceward/postgres'
import { nats, postgres } from '@onceward/testing/servers'
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

const CONSUMER = 'billing'
/** Messages that the bare loop fetches at once; twice as many are in flight. */
const MOST = 16
const READERS = 2

/** A stream that is consumed by consumeNats and by a hand-written loop of fetches. */
export async function natsBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using streams = await nats()
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
    name: 'nats',
    unit: 'events/s',
    values: {
      ...Object.fromEntries([...rates].map(([name, round]) => [name, median(round)])),
      ...processorTimes(costs),
    },
    ratios: {
      nats: ratioOf(rates, 'each', 'bare-loop'),
      'nats-batch': ratioOf(rates, 'batch', 'bare-loop'),
      'nats-of-own-loop': ratioOf(rates, 'each', 'guard-in-own-loop'),
    },
    goals: [
      { name: 'nats', least: 0.75 },
      { name: 'nats-batch', least: 2 },
    ],
  }
}

interface Testbed extends AsyncDisposable {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly connection: NatsConnection
}

async function openTestbed(databaseUrl: string, url: string): Promise<Testbed> {
  const pool = new Pool({ connectionString: databaseUrl, max: CONCURRENCY })
  pool.on('error', () => undefined)
  const connection = await connect({ servers: url, maxReconnectAttempts: -1 })
  return {
    ...{ pool, databaseUrl, connection },
    [Symbol.asyncDispose]: async () => {
      await connection.close()
      await pool.end()
    },
  }
}

interface Entry {
  readonly key: string
  readonly body: Uint8Array
}

interface Handling {
  handle(entry: Entry): Promise<void>
  close?(): Promise<void>
}

/** A loop that acks what was handled, and waits until the server has the acks. */
function byHand(
  name: string,
  { connection }: Testbed,
  prepare: () => Promise<Handling>,
): Contestant {
  return {
    name,
    prepare: async (events) => {
      const stream = await filledStream(connection, events)
      const { handle, close } = await prepare()
      let left = events
      const read = async (): Promise<void> => {
        const consumer = await jetstream(connection).consumers.get(stream, CONSUMER)
        while (left > 0) {
          const messages = await consumer.fetch({ max_messages: MOST, expires: 1_000 })
          const handled: Promise<void>[] = []
          for await (const message of messages) {
            const key = message.headers?.get('idempotency-key') ?? ''
            handled.push(handle({ key, body: message.data }).then(() => message.ack()))
            left -= 1
            if (left === 0) break
          }
          await Promise.all(handled)
          await connection.flush()
        }
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
        const order: Order = JSON.parse(Buffer.from(body).toString())
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

function guarded({ databaseUrl, connection }: Testbed, transaction: 'each' | 'batch'): Contestant {
  return {
    name: transaction,
    prepare: async (events) => {
      const stream = await filledStream(connection, events)
      const guard = await roundGuard({ connectionString: databaseUrl, transaction })
      return async () => {
        const startedAt = performance.now()
        const consumption = await consumeNats(connection, guard, { stream, consumer: CONSUMER })
        while ((await unsettled(connection, stream)) > 0) {
          await new Promise((again) => setTimeout(again, 5))
        }
        const tookMs = performance.now() - startedAt
        await consumption.drain()
        await guard.close()
        return tookMs
      }
    },
  }
}

async function unsettled(connection: NatsConnection, stream: string): Promise<number> {
  const manager = await jetstreamManager(connection, { checkAPI: false })
  const info = await manager.consumers.info(stream, CONSUMER)
  return info.num_pending + info.num_ack_pending
}

let streams = 0

async function filledStream(connection: NatsConnection, events: number): Promise<string> {
  streams += 1
  const stream = `bench-${streams}`
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: stream, subjects: [stream] })
  await manager.consumers.add(stream, {
    ...{ durable_name: CONSUMER, ack_policy: 'explicit', ack_wait: 60e9, max_deliver: -1 },
  })
  const client = jetstream(connection)
  const all = Array.from({ length: events }, toDelivery)
  await inLanes(all, 64, async ({ body, headers: given }) => {
    const named = headers()
    named.set('idempotency-key', given['idempotency-key'] ?? '')
    await client.publish(stream, Buffer.from(body), { headers: named })
  })
  return stream
}
