import { consumeAmqp } from '@onceward/amqp'
import { migrate } from '@onceward/postgres'
import { until } from '@onceward/testing'
import { postgres, rabbitmq } from '@onceward/testing/servers'
import { type Channel, type ChannelModel, type ConsumeMessage, connect } from 'amqplib'
import { Pool } from 'pg'
import {
  createEffects,
  DURABLE,
  decode,
  deliveryOf,
  inTransaction,
  type Order,
  write,
} from '../load/effects.ts'
import { startPublisherProcess } from '../load/proxy-process.ts'
import { processed, roundGuard, warm } from '../load/round-guard.ts'
import { countingObserver, type Observer, weighing } from '../runner/observer.ts'
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
import { Stopwatch } from '../runner/stopwatch.ts'

/** For both contestants. Two batches are more than the guard has in flight. */
const PREFETCH = 100

/** Batches are so fast that a round of the usual size would be too short. */
const MORE = 3

/** Most events in the queue while the heap is watched. */
const AHEAD = 20_000

/** A queue that is consumed by consumeAmqp and by a hand-written consumer. */
export async function amqpBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using broker = await rabbitmq()
  await using testbed = await openTestbed(await server.createDatabase(), broker.connection.url)
  await migrate(testbed.pool)
  await createEffects(testbed.pool)
  const meter = await processorMeter(testbed.pool)
  const { rates, costs } = await alternateMetered(contestants(testbed), scale, () => meter)
  return {
    name: 'amqp',
    unit: 'events/s',
    values: {
      ...Object.fromEntries([...rates].map(([name, round]) => [name, median(round)])),
      ...processorTimes(costs),
      ...(await grow(testbed, scale.growth)),
    },
    ratios: {
      each: ratioOf(rates, 'consumeAmqp-each', 'bare-consumer'),
      'each-of-own-loop': ratioOf(rates, 'consumeAmqp-each', 'guard-in-own-loop'),
      batch: ratioOf(rates, 'consumeAmqp-batch', 'bare-consumer'),
    },
    goals: [
      { name: 'each', least: 0.75 },
      { name: 'each-of-own-loop', least: 0.9 },
      { name: 'batch', least: 2.5 },
      { name: 'end-to-end-batch', least: 3_200 },
    ],
  }
}

const contestants = (testbed: Testbed): readonly Contestant[] => [
  drained('bare-consumer', testbed, bare),
  drained('guard-in-own-loop', testbed, ownLoop),
  drained('consumeAmqp-each', testbed, guarded('each')),
  { ...drained('consumeAmqp-batch', testbed, guarded('batch')), factor: MORE },
  { ...endToEnd(testbed), factor: MORE },
]

interface Testbed extends AsyncDisposable {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly url: string
  /** Publishes that many events, persistent and confirmed, in a process of its own. */
  publish(queue: string, events: number): Promise<void>
}

async function openTestbed(databaseUrl: string, url: string): Promise<Testbed> {
  // The only limit of the bare consumer's concurrency.
  const pool = new Pool({ connectionString: databaseUrl, max: CONCURRENCY })
  pool.on('error', () => undefined)
  const publisher = await startPublisherProcess(url)
  return {
    pool,
    databaseUrl,
    url,
    publish: publisher.connection.publish,
    [Symbol.asyncDispose]: async () => {
      await publisher[Symbol.asyncDispose]()
      await pool.end()
    },
  }
}

interface Run {
  readonly queue: string
  readonly watch: Stopwatch
  /** Called for each settled delivery, if a guard runs. */
  readonly observe: Observer
}

/** What is started for a round, and ended after it. */
interface Started {
  end(): Promise<void>
}

/** Prepares a consumer whose pool is warm; resolves with the function that starts it. */
type Prepare = (testbed: Testbed, run: Run) => Promise<() => Promise<Started>>

/** From a full queue. */
function drained(name: string, testbed: Testbed, prepare: Prepare): Contestant {
  return {
    name,
    prepare: async (events) => {
      const queue = await newQueue(testbed.url)
      await testbed.publish(queue, events)
      const watch = new Stopwatch(events)
      const observe = countingObserver('processed', watch)
      const start = await prepare(testbed, { queue, watch, observe })
      return async () => {
        const started = await start()
        const took = await watch.took
        await started.end()
        return took
      }
    },
  }
}

/** From the first publish to the last settled event, while a publisher sends as fast as it can. */
function endToEnd(testbed: Testbed): Contestant {
  return {
    name: 'end-to-end-batch',
    prepare: async (events) => {
      const queue = await newQueue(testbed.url)
      const watch = new Stopwatch(events)
      const observe = countingObserver('processed', watch)
      const start = await guarded('batch')(testbed, { queue, watch, observe })
      const started = await start()
      return async () => {
        watch.start()
        await testbed.publish(queue, events)
        const took = await watch.took
        await started.end()
        return took
      }
    },
  }
}

async function newQueue(url: string): Promise<string> {
  const connection = await connect(url)
  const channel = await connection.createChannel()
  const { queue } = await channel.assertQueue(`bench-${crypto.randomUUID()}`)
  await connection.close()
  return queue
}

interface Handling {
  handle(message: ConsumeMessage): Promise<void>
  close?(): Promise<void>
}

/** A consumer of amqplib that acks what was handled. */
function byHand(prepare: (testbed: Testbed) => Promise<Handling>): Prepare {
  return async (testbed, { queue, watch }) => {
    const { handle, close } = await prepare(testbed)
    return async () => {
      const connection = await connect(testbed.url)
      const channel = await connection.createChannel()
      await channel.prefetch(PREFETCH)
      const handleAndAck = async (message: ConsumeMessage): Promise<void> => {
        await handle(message)
        channel.ack(message)
        watch.count()
      }
      await channel.consume(queue, (message) => {
        watch.start()
        if (message === null) watch.fail(new Error('the consumer was cancelled'))
        else handleAndAck(message).catch((error) => watch.fail(error))
      })
      return {
        end: async () => {
          await connection.close()
          await close?.()
        },
      }
    }
  }
}

const bare = byHand(async ({ pool }) => {
  await warm((delivery) => inTransaction(pool, (tx) => write(tx, decode(delivery))))
  return {
    handle: async ({ content }) => {
      const order: Order = JSON.parse(content.toString())
      await inTransaction(pool, (tx) => write(tx, order))
    },
  }
})

/** The guard without the adapter. */
const ownLoop = byHand(async ({ databaseUrl }) => {
  const guard = await roundGuard({ connectionString: databaseUrl })
  return {
    handle: async ({ content, properties }) => {
      const key = String(properties.headers?.['idempotency-key'])
      await processed(guard, deliveryOf(content, key))
    },
    close: () => guard.close(),
  }
})

const guarded =
  (transaction: 'each' | 'batch'): Prepare =>
  async ({ databaseUrl, url }, { queue, watch, observe }) => {
    const guard = await roundGuard({ connectionString: databaseUrl, transaction, observe })
    return async () => {
      const connected = async (): Promise<ChannelModel> => watched(await connect(url), watch)
      const consumption = await consumeAmqp(connected, guard, {
        queue,
        prefetch: prefetchOf(transaction),
      })
      return {
        end: async () => {
          await consumption.drain()
          await guard.close()
        },
      }
    }
  }

/** For the bare consumer, and for batches of a hundred as many as keep all lanes busy. */
const prefetchOf = (transaction: 'each' | 'batch'): number | undefined =>
  transaction === 'each' ? PREFETCH : undefined

/** The same connection, whose channels report their first delivery. */
function watched(connection: ChannelModel, watch: Stopwatch): ChannelModel {
  const watching =
    <Opened extends Channel>(open: () => Promise<Opened>) =>
    async () => {
      const channel = await open()
      channel.once('delivery', () => watch.start())
      return channel
    }
  connection.createChannel = watching(connection.createChannel.bind(connection))
  connection.createConfirmChannel = watching(connection.createConfirmChannel.bind(connection))
  return connection
}

/** How much the heap grows with very many deliveries. */
async function grow(testbed: Testbed, events: number): Promise<Readonly<Record<string, number>>> {
  const queue = await newQueue(testbed.url)
  const watch = new Stopwatch(events)
  const { observe, growth } = weighing(events, countingObserver('processed', watch))
  let settled = 0
  const start = await guarded('batch')(testbed, {
    queue,
    watch,
    observe: (record) => {
      settled += 1
      observe(record)
    },
  })
  const started = await start()
  for (let sent = 0; sent < events; sent += AHEAD / 2) {
    await until(() => sent - settled <= AHEAD / 2, { deadlineMs: 600_000 })
    await testbed.publish(queue, Math.min(AHEAD / 2, events - sent))
  }
  await watch.took
  await started.end()
  return growth()
}
