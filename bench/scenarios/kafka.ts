import type { Guard, LeaseStore } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { migrate } from '@onceward/postgres'
import { redisLeases } from '@onceward/redis'
import { kafka, postgres, redis } from '@onceward/testing/servers'
import { Redis } from 'ioredis'
import type {
  ConsumerRunConfig,
  EachBatchPayload,
  EachMessagePayload,
  Kafka,
  KafkaMessage,
} from 'kafkajs'
import { openClient } from '../../test-e2e/brokers/kafka/clients.ts'
import {
  createEffects,
  DURABLE,
  decode,
  deliveryOf,
  inTransaction,
  type Order,
  write,
} from '../load/effects.ts'
import { BY_HAND, type OtherClient, otherClients } from '../load/kafka-clients.ts'
import { openTestbed, type Testbed, unique, watched } from '../load/kafka-testbed.ts'
import { processed, roundGuard, warm } from '../load/round-guard.ts'
import { countingObserver, type Observer, weighing } from '../runner/observer.ts'
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
import { Stopwatch } from '../runner/stopwatch.ts'
import { FENCE_GOALS, fenceContestants, fenceRatios } from './kafka-fence.ts'

/**
 * Rounds are long, so that the suspect deliveries after an assignment, with which each round begins, are a small part
 * of them. Therefore there are fewer rounds. Each kind of work has its length, in rounds of the usual size.
 */
const MOST_ROUNDS = 3
const LENGTHS = { each: 5, batch: 20, read: 25 } as const

const OTHERS = otherClients()

/** A topic that is consumed by consumeKafka and by hand-written consumers. */
export async function kafkaBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using broker = await kafka()
  await using cache = await redis()
  await using testbed = await openTestbed(await server.createDatabase(), broker.connection)
  await using client = disposable(new Redis(cache.connection.url))
  await migrate(testbed.pool)
  await createEffects(testbed.pool)
  const leases = redisLeases(client.redis)
  const rounds = Math.min(scale.rounds, MOST_ROUNDS)
  const meter = await processorMeter(testbed.pool)
  const all = [...contestants(testbed, leases), ...fenceContestants(testbed)]
  const { rates, costs } = await alternateMetered(
    all,
    { rounds, events: scale.events },
    () => meter,
  )
  const values = Object.fromEntries([...rates].map(([name, round]) => [name, median(round)]))
  return {
    name: 'kafka',
    unit: 'events/s',
    values: { ...values, ...processorTimes(costs), ...(await grow(testbed, scale.growth)) },
    ratios: {
      each: ratioOf(rates, 'consumeKafka-each', 'bare-eachMessage'),
      'each-of-eachBatch': ratioOf(rates, 'consumeKafka-each', 'bare-eachBatch-16'),
      'each-of-own-loop': ratioOf(rates, 'consumeKafka-each', 'guard-in-own-loop'),
      batch: ratioOf(rates, 'consumeKafka-batch', 'bare-eachMessage'),
      ...Object.fromEntries(
        OTHERS.flatMap((client) => [
          [`${client}-each`, ratioOf(rates, `${client}-each`, `bare-${client}-16`)],
          [`${client}-batch`, ratioOf(rates, `${client}-batch`, 'bare-eachMessage')],
        ]),
      ),
      replay: ratioOf(rates, 'replay', 'read-only'),
      'replay-redis': ratioOf(rates, 'replay-redis', 'read-only'),
      ...fenceRatios(rates),
    },
    goals: [
      { name: 'each', least: 3 },
      { name: 'each-of-eachBatch', least: 0.65 },
      { name: 'each-of-own-loop', least: 0.9 },
      { name: 'batch', least: 7 },
      ...OTHERS.flatMap((client) => [
        { name: `${client}-each`, least: 0.65 },
        { name: `${client}-batch`, least: 7 },
      ]),
      { name: 'replay-redis', least: Math.min(20_000 / (values['read-only'] ?? 1), 0.7) },
      ...FENCE_GOALS,
    ],
  }
}

function contestants(testbed: Testbed, leases: LeaseStore): readonly Contestant[] {
  return [
    ...lasting(LENGTHS.each, [
      bare(testbed, 'bare-eachMessage', async (watch) => {
        const { handle } = await unguarded(testbed)
        const eachMessage = async ({ message }: EachMessagePayload): Promise<void> => {
          await handle(message)
          watch.count()
        }
        return { config: { eachMessage } }
      }),
      bare(testbed, 'bare-eachBatch-16', async (watch) =>
        inBatches(await unguarded(testbed), watch),
      ),
      bare(testbed, 'guard-in-own-loop', async (watch) => inBatches(await alone(testbed), watch)),
      guarded(testbed, 'consumeKafka-each', { transaction: 'each' }),
      ...OTHERS.flatMap((client) => [
        byHand(testbed, client),
        guarded(testbed, `${client}-each`, { transaction: 'each', client }),
      ]),
    ]),
    ...lasting(LENGTHS.batch, [
      guarded(testbed, 'consumeKafka-batch', { transaction: 'batch' }),
      ...OTHERS.map((client) =>
        guarded(testbed, `${client}-batch`, { transaction: 'batch', client }),
      ),
    ]),
    ...lasting(LENGTHS.read, [
      replayed(testbed, 'replay', { transaction: 'batch' }),
      replayed(testbed, 'replay-redis', { transaction: 'batch', leases }),
      bare(testbed, 'read-only', async (watch) => ({
        config: { eachBatch: async ({ batch }) => watch.count(batch.messages.length) },
      })),
    ]),
  ]
}

interface Handling {
  handle(message: KafkaMessage): Promise<void>
  close?(): Promise<void>
}

async function unguarded({ pool }: Testbed): Promise<Handling> {
  await warm((delivery) => inTransaction(pool, (tx) => write(tx, decode(delivery))))
  return {
    handle: ({ value }) => {
      const order: Order = JSON.parse(String(value))
      return inTransaction(pool, (tx) => write(tx, order))
    },
  }
}

/** The guard without the adapter. */
async function alone({ databaseUrl }: Testbed): Promise<Handling> {
  const guard = await roundGuard({ connectionString: databaseUrl, consumer: unique() })
  return {
    handle: ({ value, key }) =>
      processed(guard, deliveryOf(value ?? new Uint8Array(), String(key))),
    close: () => guard.close(),
  }
}

interface Running {
  readonly config: ConsumerRunConfig
  readonly close?: Handling['close']
}

/** As many handlers at once as the guard has. */
function inBatches({ handle, close }: Handling, watch: Stopwatch): Running {
  const eachBatch = async ({ batch, heartbeat }: EachBatchPayload): Promise<void> => {
    await inLanes(batch.messages, CONCURRENCY, async (message) => {
      await handle(message)
      watch.count()
    })
    await heartbeat()
  }
  return { config: { eachBatch }, close }
}

const lasting = (factor: number, all: readonly Contestant[]): readonly Contestant[] =>
  all.map((contestant) => ({ ...contestant, factor }))

function bare(
  testbed: Testbed,
  name: string,
  prepare: (watch: Stopwatch) => Promise<Running>,
): Contestant {
  return {
    name,
    prepare: async (events) => {
      const topic = await testbed.topicOf(events)
      const watch = new Stopwatch(events)
      const { config, close } = await prepare(watch)
      return async () => {
        const consumer = watched(testbed.kafka, watch).consumer({ groupId: unique() })
        await consumer.connect()
        await consumer.subscribe({ topics: [topic], fromBeginning: true })
        await consumer.run(config)
        const took = await watch.took
        await consumer.disconnect()
        await close?.()
        return took
      }
    },
  }
}

/** Another client in a loop of one's own. */
const byHand = (testbed: Testbed, client: OtherClient): Contestant => ({
  name: `bare-${client}-16`,
  prepare: async (events) => {
    const topic = await testbed.topicOf(events)
    const watch = new Stopwatch(events)
    const { pool, connection } = testbed
    await warm((delivery) => inTransaction(pool, (tx) => write(tx, decode(delivery))))
    const handle = (value: Buffer | null): Promise<void> => {
      const order: Order = JSON.parse(String(value))
      return inTransaction(pool, (tx) => write(tx, order))
    }
    return () => BY_HAND[client]({ connection, topic, watch, handle })
  },
})

interface GuardedOptions {
  readonly client?: OtherClient
  readonly consumer?: string
  readonly transaction?: 'each' | 'batch'
  readonly leases?: LeaseStore
}

function guarded(
  testbed: Testbed,
  name: string,
  { client, ...options }: GuardedOptions,
  by: 'processed' | 'duplicate' = 'processed',
): Contestant {
  return {
    name,
    prepare: async (events) => {
      const topic = await testbed.topicOf(events)
      const watch = new Stopwatch(events)
      const guard = await guardOf(testbed, options, countingObserver(by, watch))
      return () => consumed(testbed, { topic, guard, watch, client })
    },
  }
}

function guardOf(
  { databaseUrl }: Testbed,
  options: GuardedOptions,
  observe: Observer,
): Promise<Guard> {
  return roundGuard({
    ...{ connectionString: databaseUrl, consumer: unique(), observe },
    ...options,
  })
}

interface Run {
  readonly topic: string
  readonly guard: Guard
  readonly watch: Stopwatch
  /** Default: kafkajs. */
  readonly client?: OtherClient | undefined
}

async function consumed(
  { kafka: kafkajs, connection }: Testbed,
  { topic, guard, watch, client }: Run,
): Promise<number> {
  const onRecords = (): void => watch.start()
  const kafka =
    client === undefined
      ? watched(kafkajs, watch)
      : await openClient(client, connection, { clientId: 'bench', onRecords })
  const consumption = await consumeKafka(kafka as Kafka, guard, {
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
function replayed(testbed: Testbed, name: string, options: GuardedOptions): Contestant {
  const consumer = `bench-${name}`
  const again = guarded(testbed, name, { ...options, consumer }, 'duplicate')
  const first = guarded(testbed, name, { ...options, consumer })
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
async function grow(testbed: Testbed, events: number): Promise<Readonly<Record<string, number>>> {
  const topic = await testbed.topicOf(events)
  const watch = new Stopwatch(events)
  const { observe, growth } = weighing(events, countingObserver('processed', watch))
  const guard = await guardOf(testbed, { transaction: 'batch' }, observe)
  await consumed(testbed, { topic, guard, watch })
  return growth()
}

function disposable(client: Redis): { readonly redis: Redis } & AsyncDisposable {
  return { redis: client, [Symbol.asyncDispose]: async () => client.disconnect() }
}
