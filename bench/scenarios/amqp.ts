import { consumeAmqp } from '@onceward/amqp'
import { createGuard, type Guard, type GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { until } from '@onceward/testing'
import { postgres, rabbitmq } from '@onceward/testing/servers'
import { type Channel, type ChannelModel, type ConsumeMessage, connect } from 'amqplib'
import { Pool } from 'pg'
import { createEffects, DURABLE, inTransaction, type Order, write } from '../load/effects.ts'
import { startPublisherProcess } from '../load/proxy-process.ts'
import { countingObserver, type Observer, QUIET, weighing } from '../runner/observer.ts'
import type { Benchmark } from '../runner/report.ts'
import { alternate, CONCURRENCY, type Contestant, median, ratioOf } from '../runner/rounds.ts'
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
  await using stage = await openStage(await server.createDatabase(), broker.connection.url)
  await migrate(stage.pool)
  await createEffects(stage.pool)
  const rates = await alternate(contestants(stage), scale)
  return {
    name: 'amqp',
    unit: 'events/s',
    values: {
      ...Object.fromEntries([...rates].map(([name, round]) => [name, median(round)])),
      ...(await grow(stage, scale.growth)),
    },
    ratios: {
      each: ratioOf(rates, 'consumeAmqp-each', 'bare-consumer'),
      batch: ratioOf(rates, 'consumeAmqp-batch', 'bare-consumer'),
    },
    goals: [
      { name: 'each', least: 0.8 },
      { name: 'batch', least: 3 },
      { name: 'end-to-end-batch', least: 3_200 },
    ],
  }
}

const contestants = (stage: Stage): readonly Contestant[] => [
  drained('bare-consumer', stage, bare),
  drained('consumeAmqp-each', stage, guarded('each')),
  { ...drained('consumeAmqp-batch', stage, guarded('batch')), factor: MORE },
  { ...endToEnd(stage), factor: MORE },
]

interface Stage extends AsyncDisposable {
  readonly pool: Pool
  /** The only limit of the bare consumer's concurrency. */
  readonly barePool: Pool
  readonly url: string
  /** Publishes that many events, persistent and confirmed, in a process of its own. */
  publish(queue: string, events: number): Promise<void>
}

async function openStage(connectionString: string, url: string): Promise<Stage> {
  const pools = [CONCURRENCY + 2, CONCURRENCY].map((max) => new Pool({ connectionString, max }))
  for (const pool of pools) pool.on('error', () => undefined)
  const [pool, barePool] = pools as [Pool, Pool]
  const publisher = await startPublisherProcess(url)
  return {
    pool,
    barePool,
    url,
    publish: publisher.connection.publish,
    [Symbol.asyncDispose]: async () => {
      await publisher[Symbol.asyncDispose]()
      await Promise.all([pool.end(), barePool.end()])
    },
  }
}

interface Run {
  readonly queue: string
  readonly watch: Stopwatch
  /** Called for each settled delivery, if a guard runs. */
  readonly observe: Observer
}

/** Starts a consumer; resolves with the function that ends it. */
type Consume = (stage: Stage, run: Run) => Promise<() => Promise<void>>

/** From a full queue. */
function drained(name: string, stage: Stage, consume: Consume): Contestant {
  return {
    name,
    prepare: async (events) => {
      const queue = await newQueue(stage.url)
      await stage.publish(queue, events)
      const watch = new Stopwatch(events)
      return async () => {
        const end = await consume(stage, {
          queue,
          watch,
          observe: countingObserver('processed', watch),
        })
        const took = await watch.took
        await end()
        return took
      }
    },
  }
}

/** From the first publish to the last settled event, while a publisher sends as fast as it can. */
function endToEnd(stage: Stage): Contestant {
  return {
    name: 'end-to-end-batch',
    prepare: async (events) => {
      const queue = await newQueue(stage.url)
      const watch = new Stopwatch(events)
      const observe = countingObserver('processed', watch)
      const end = await guarded('batch')(stage, { queue, watch, observe })
      return async () => {
        watch.start()
        await stage.publish(queue, events)
        const took = await watch.took
        await end()
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

const bare: Consume = async ({ barePool, url }, { queue, watch }) => {
  const connection = await connect(url)
  const channel = await connection.createChannel()
  await channel.prefetch(PREFETCH)
  const handle = async (message: ConsumeMessage): Promise<void> => {
    const order: Order = JSON.parse(message.content.toString())
    await inTransaction(barePool, (tx) => write(tx, order))
    channel.ack(message)
    watch.count()
  }
  await channel.consume(queue, (message) => {
    watch.start()
    if (message === null) watch.fail(new Error('the consumer was cancelled'))
    else handle(message).catch((error) => watch.fail(error))
  })
  return () => connection.close()
}

const guarded =
  (transaction: 'each' | 'batch'): Consume =>
  async ({ pool, url }, { queue, watch, observe }) => {
    const guard: Guard = createGuard(
      {
        ...{ consumer: 'bench', inbox: pgInbox(pool), logger: QUIET },
        ...{ concurrency: CONCURRENCY, transaction, observe },
      },
      ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
    )
    const connected = async (): Promise<ChannelModel> => watched(await connect(url), watch)
    const consumption = await consumeAmqp(connected, guard, {
      queue,
      prefetch: prefetchOf(transaction),
    })
    return async () => {
      await consumption.drain()
      await guard.close()
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
async function grow(stage: Stage, events: number): Promise<Readonly<Record<string, number>>> {
  const queue = await newQueue(stage.url)
  const watch = new Stopwatch(events)
  const { observe, growth } = weighing(events, countingObserver('processed', watch))
  let settled = 0
  const end = await guarded('batch')(stage, {
    queue,
    watch,
    observe: (record) => {
      settled += 1
      observe(record)
    },
  })
  for (let sent = 0; sent < events; sent += AHEAD / 2) {
    await until(() => sent - settled <= AHEAD / 2, { deadlineMs: 600_000 })
    await stage.publish(queue, Math.min(AHEAD / 2, events - sent))
  }
  await watch.took
  await end()
  return growth()
}
