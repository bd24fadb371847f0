import { createGuard, type Guard, type GuardEvent, type LeaseStore } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { type KafkaConnection, kafka, postgres, redis } from '@onceward/testing/servers'
import { Redis } from 'ioredis'
import { type ConsumerRunConfig, Kafka, type KafkaMessage, logLevel } from 'kafkajs'
import { Pool } from 'pg'
import {
  createEffects,
  DURABLE,
  inTransaction,
  type Order,
  toDelivery,
  write,
} from '../load/effects.ts'
import { countingObserver, type Observer, QUIET, weighing } from '../runner/observer.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternate,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'
import { Stopwatch } from '../runner/stopwatch.ts'

const PARTITIONS = 4

/**
 * Rounds are long, so that the suspect deliveries after an assignment, with which each round begins, are a small part
 * of them. Therefore there are fewer rounds. Each kind of work has its length, in rounds of the usual size.
 */
const MOST_ROUNDS = 3
const LENGTHS = { each: 5, batch: 10, read: 25 } as const

/** A topic that is consumed by consumeKafka and by hand-written consumers. */
export async function kafkaBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using broker = await kafka()
  await using cache = await redis()
  await using stage = await openStage(await server.createDatabase(), broker.connection)
  await using client = disposable(new Redis(cache.connection.url))
  await migrate(stage.pool)
  await createEffects(stage.pool)
  const leases = redisLeases(client.redis)
  const rounds = Math.min(scale.rounds, MOST_ROUNDS)
  const rates = await alternate(contestants(stage, leases), { ...scale, rounds })
  const values = Object.fromEntries([...rates].map(([name, round]) => [name, median(round)]))
  return {
    name: 'kafka',
    unit: 'events/s',
    values: { ...values, ...(await grow(stage, scale.growth)) },
    ratios: {
      each: ratioOf(rates, 'consumeKafka-each', 'bare-eachMessage'),
      'each-of-eachBatch': ratioOf(rates, 'consumeKafka-each', 'bare-eachBatch-16'),
      batch: ratioOf(rates, 'consumeKafka-batch', 'bare-eachMessage'),
      replay: ratioOf(rates, 'replay', 'read-only'),
      'replay-redis': ratioOf(rates, 'replay-redis', 'read-only'),
    },
    goals: [
      { name: 'each', least: 3 },
      { name: 'each-of-eachBatch', least: 0.8 },
      { name: 'batch', least: 4 },
      { name: 'replay-redis', least: Math.min(20_000 / (values['read-only'] ?? 1), 0.7) },
    ],
  }
}

function contestants(stage: Stage, leases: LeaseStore): readonly Contestant[] {
  const handle = ({ value }: KafkaMessage): Promise<void> => {
    const order: Order = JSON.parse(String(value))
    return inTransaction(stage.pool, (tx) => write(tx, order))
  }
  return [
    ...lasting(LENGTHS.each, [
      bare(stage, 'bare-eachMessage', (watch) => ({
        eachMessage: async ({ message }) => {
          await handle(message)
          watch.count()
        },
      })),
      bare(stage, 'bare-eachBatch-16', (watch) => ({
        eachBatch: async ({ batch, heartbeat }) => {
          await inLanes(batch.messages, CONCURRENCY, async (message) => {
            await handle(message)
            watch.count()
          })
          await heartbeat()
        },
      })),
      guarded(stage, 'consumeKafka-each', { transaction: 'each' }),
    ]),
    ...lasting(LENGTHS.batch, [guarded(stage, 'consumeKafka-batch', { transaction: 'batch' })]),
    ...lasting(LENGTHS.read, [
      replayed(stage, 'replay', { transaction: 'batch' }),
      replayed(stage, 'replay-redis', { transaction: 'batch', leases }),
      bare(stage, 'read-only', (watch) => ({
        eachBatch: async ({ batch }) => watch.count(batch.messages.length),
      })),
    ]),
  ]
}

const lasting = (factor: number, all: readonly Contestant[]): readonly Contestant[] =>
  all.map((contestant) => ({ ...contestant, factor }))

interface Stage extends AsyncDisposable {
  readonly pool: Pool
  readonly kafka: Kafka
  /** A topic with that many events. Consumers of another name read it again as if it were new. */
  topicOf(events: number): Promise<string>
}

async function openStage(connectionString: string, connection: KafkaConnection): Promise<Stage> {
  const pool = new Pool({ connectionString, max: CONCURRENCY + 2 })
  pool.on('error', () => undefined)
  const client = new Kafka({ brokers: connection.brokers, logLevel: logLevel.NOTHING })
  const topics = new Map<number, Promise<string>>()
  return {
    pool,
    kafka: client,
    topicOf: (events) => {
      const topic = topics.get(events) ?? filledTopic(client, events)
      topics.set(events, topic)
      return topic
    },
    [Symbol.asyncDispose]: () => pool.end(),
  }
}

async function filledTopic(client: Kafka, events: number): Promise<string> {
  const topic = `bench-${events}`
  const admin = client.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] })
  await admin.disconnect()
  const producer = client.producer()
  await producer.connect()
  for (let sent = 0; sent < events; sent += 1_000) {
    const messages = Array.from({ length: Math.min(1_000, events - sent) }, () => {
      const { body, headers } = toDelivery()
      const key = headers['idempotency-key'] ?? ''
      return { key, value: Buffer.from(body), headers: { 'idempotency-key': key } }
    })
    await producer.send({ topic, messages })
  }
  await producer.disconnect()
  return topic
}

const unique = (): string => `bench-${crypto.randomUUID()}`

/** The same client, whose consumers report their first batch. */
function watched(client: Kafka, watch: Stopwatch): Kafka {
  const watching = Object.create(client) as Kafka
  watching.consumer = (config) => {
    const consumer = client.consumer(config)
    consumer.on(consumer.events.START_BATCH_PROCESS, () => watch.start())
    return consumer
  }
  return watching
}

function bare(
  stage: Stage,
  name: string,
  toConfig: (watch: Stopwatch) => ConsumerRunConfig,
): Contestant {
  return {
    name,
    prepare: async (events) => {
      const topic = await stage.topicOf(events)
      const watch = new Stopwatch(events)
      return async () => {
        const consumer = watched(stage.kafka, watch).consumer({ groupId: unique() })
        await consumer.connect()
        await consumer.subscribe({ topics: [topic], fromBeginning: true })
        await consumer.run(toConfig(watch))
        const took = await watch.took
        await consumer.disconnect()
        return took
      }
    },
  }
}

interface GuardedOptions {
  readonly consumer?: string
  readonly transaction?: 'each' | 'batch'
  readonly leases?: LeaseStore
}

function guarded(
  stage: Stage,
  name: string,
  options: GuardedOptions,
  by: 'processed' | 'duplicate' = 'processed',
): Contestant {
  return {
    name,
    prepare: async (events) => {
      const topic = await stage.topicOf(events)
      const watch = new Stopwatch(events)
      const guard = guardOf(stage, options, countingObserver(by, watch))
      return () => consumed(stage, { topic, guard, watch })
    },
  }
}

function guardOf({ pool }: Stage, options: GuardedOptions, observe: Observer): Guard {
  const inbox = pgInbox(pool)
  return createGuard(
    { consumer: unique(), inbox, concurrency: CONCURRENCY, observe, logger: QUIET, ...options },
    ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
  )
}

interface Run {
  readonly topic: string
  readonly guard: Guard
  readonly watch: Stopwatch
}

async function consumed({ kafka: client }: Stage, { topic, guard, watch }: Run): Promise<number> {
  const consumption = await consumeKafka(watched(client, watch), guard, {
    topics: [topic],
    groupId: unique(),
    fromBeginning: true,
  })
  const took = await watch.took
  await consumption.drain()
  await guard.close()
  return took
}

/** Reads processed records again from offset 0. */
function replayed(stage: Stage, name: string, options: GuardedOptions): Contestant {
  const consumer = `bench-${name}`
  const again = guarded(stage, name, { ...options, consumer }, 'duplicate')
  const first = guarded(stage, name, { ...options, consumer })
  let isDone = false
  return {
    ...again,
    prepare: async (events) => {
      if (!isDone) await (await first.prepare(events))()
      isDone = true
      return again.prepare(events)
    },
  }
}

/** How much the heap grows with very many records. */
async function grow(stage: Stage, events: number): Promise<Readonly<Record<string, number>>> {
  const topic = await stage.topicOf(events)
  const watch = new Stopwatch(events)
  const { observe, growth } = weighing(events, countingObserver('processed', watch))
  const guard = guardOf(stage, { transaction: 'batch' }, observe)
  await consumed(stage, { topic, guard, watch })
  return growth()
}

function disposable(client: Redis): { readonly redis: Redis } & AsyncDisposable {
  return { redis: client, [Symbol.asyncDispose]: async () => client.disconnect() }
}
