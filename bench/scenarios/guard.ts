import {
  createBatchGuard,
  createGuard,
  type Delivery,
  type Guard,
  type GuardEvent,
  type Inbox,
  type InboxGuardOptions,
} from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { postgres } from '@onceward/testing/servers'
import { Pool, type PoolClient } from 'pg'
import {
  createEffects,
  DURABLE,
  decode,
  inTransaction,
  type Order,
  onceByHand,
  toDelivery,
  write,
  writeAll,
} from '../load/effects.ts'
import { grow } from '../load/growth.ts'
import { startProxyProcess } from '../load/proxy-process.ts'
import {
  claimAndWrite,
  claimAndWriteAll,
  claimAndWriteChained,
  openStatements,
} from '../load/statements.ts'
import { processorMeter } from '../runner/processor-time.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternate,
  alternateMetered,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  processorTimes,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

const BATCH = 100
/** Not timed: a pool opens its connections with its first events. */
const WARM_UP = 4 * CONCURRENCY
/**
 * A pool keeps its connections while other contestants run. A new backend costs the server up to a quarter more for each event
 * until it has touched the memory of the server, and only the pools that rest would pay for that.
 */
const KEPT = { idleTimeoutMillis: 0 } as const

// Node's timers wake once a millisecond, so that this is 1 ms on average (0.5 to 1.5): see "ping-1ms".
const LATENCY_MS = 0.5

/** The guard alone, without a broker: one write per event. */
export async function guardBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  const url = await server.createDatabase()
  const { host, port } = server.connection
  await using far = await startProxyProcess({ host, port }, LATENCY_MS)
  const farUrl = Object.assign(new URL(url), { port: String(far.connection.port) }).href
  await using near = await openTestbed(url)
  await using distant = await openTestbed(farUrl)
  for (const schema of SCHEMAS) await migrate(near.pool, { schema })
  await createEffects(near.pool)
  const statements = await openStatements(url, CONCURRENCY)
  try {
    return await measure({ ...near, statements }, distant, scale)
  } finally {
    await statements.end()
  }
}

async function measure(
  near: Testbed & { readonly statements: Pool },
  distant: Testbed,
  scale: Scale,
): Promise<Benchmark> {
  const meter = await processorMeter(near.pool)
  const all = [...contestants(near), ...statementsAlone(near.statements)]
  const { rates, costs } = await alternateMetered(all, scale, () => meter)
  const isFar = ({ name }: Contestant): boolean =>
    ['unguarded', 'by-hand', 'guarded-each', 'guarded-each-64'].includes(name)
  const farRates = await alternate(contestants(distant).filter(isFar), scale)
  const values = Object.fromEntries([
    ...[...rates].map(([name, round]) => [name, median(round)]),
    ...Object.entries(processorTimes(costs)),
    ...[...farRates].map(([name, round]) => [`${name}-1ms`, median(round)]),
    ['ping µs', await ping(near.pool)],
    ['ping-1ms µs', await ping(distant.pool)],
  ])
  return {
    name: 'guard',
    unit: 'events/s',
    values: { ...values, ...(await grow(near, scale.growth)) },
    ratios: {
      each: ratioOf(rates, 'guarded-each', 'unguarded'),
      'each-of-by-hand': ratioOf(rates, 'guarded-each', 'by-hand'),
      'shared-of-by-hand': ratioOf(rates, 'guarded-each-shared', 'by-hand'),
      'each-64': ratioOf(rates, 'guarded-each-64', 'unguarded'),
      'each-64-of-by-hand': ratioOf(rates, 'guarded-each-64', 'by-hand'),
      'each-64-of-statements': ratioOf(rates, 'guarded-each-64', 'statements-chained'),
      'each-1ms': ratioOf(farRates, 'guarded-each', 'unguarded'),
      'each-64-1ms': ratioOf(farRates, 'guarded-each-64', 'unguarded'),
      'each-64-1ms-of-by-hand': ratioOf(farRates, 'guarded-each-64', 'by-hand'),
      batch: ratioOf(rates, 'guarded-batch', 'unguarded'),
      'batch-of-batch': ratioOf(rates, 'guarded-batch', 'unguarded-batch'),
      bulk: ratioOf(rates, 'guarded-bulk', 'unguarded'),
      'bulk-of-bulk': ratioOf(rates, 'guarded-bulk', 'unguarded-bulk'),
      'statements-of-by-hand': ratioOf(rates, 'statements', 'by-hand'),
      'statements-chained-of-by-hand': ratioOf(rates, 'statements-chained', 'by-hand'),
      'statements-bulk-of-bulk': ratioOf(rates, 'statements-bulk', 'unguarded-bulk'),
    },
    goals: [
      { name: 'each-64', least: 0.8 },
      { name: 'each-64-of-by-hand', least: 1.1 },
      { name: 'each-64-1ms', least: 1.2 },
      { name: 'each-64-1ms-of-by-hand', least: 1.6 },
      { name: 'batch-of-batch', least: 0.7 },
      { name: 'bulk-of-bulk', least: 0.35 },
      { name: 'bytes per event', most: 120 },
    ],
  }
}

/**
 * Each contestant has a table of its own, as the insert by hand has: an insert costs more the more rows there are, and
 * those of `bulk` are ten times those of `each`. `batch` has the usual schema, whose growth is weighed.
 */
const SCHEMAS = ['onceward', 'bench_each', 'bench_shared', 'bench_bulk'] as const

/** A pool and the guards on it. */
export interface Testbed extends AsyncDisposable {
  readonly pool: Pool
  /** On a pool of its own. */
  readonly each: Guard
  /** On the pool of all. */
  readonly shared: Guard
  readonly batch: Guard
  /** One statement for all events of a transaction. */
  readonly bulk: Guard
}

async function openTestbed(connectionString: string): Promise<Testbed> {
  // The guard keeps two connections for itself, which are idle here.
  const pool = new Pool({ connectionString, max: CONCURRENCY + 2, ...KEPT })
  pool.on('error', () => undefined)
  const guard = (
    consumer: string,
    options: Pick<InboxGuardOptions<Order, PoolClient>, 'inbox' | 'transaction'>,
  ): Guard =>
    createGuard(
      { consumer, ...options, concurrency: CONCURRENCY },
      ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
    )
  const own = (schema: (typeof SCHEMAS)[number]): Inbox<PoolClient> =>
    pgInbox({ connectionString, ...KEPT }, { schema })
  const bulk = createBatchGuard(
    { consumer: 'bench-bulk', inbox: own('bench_bulk'), concurrency: CONCURRENCY },
    (events: readonly GuardEvent<Order>[], { tx }) => {
      return writeAll(
        tx,
        events.map(({ payload }) => payload),
      )
    },
  )
  const testbed = {
    pool,
    each: guard('bench-each', { inbox: own('bench_each') }),
    shared: guard('bench-shared', { inbox: pgInbox(pool, { schema: 'bench_shared' }) }),
    batch: guard('bench-batch', { inbox: own('onceward'), transaction: 'batch' }),
    bulk,
  }
  return {
    ...testbed,
    [Symbol.asyncDispose]: async () => {
      const { each, shared, batch } = testbed
      await Promise.all([each, shared, batch, bulk].map((guard) => guard.close()))
      await pool.end()
    },
  }
}

const run =
  (work: (delivery: Delivery) => Promise<void>, inHand = CONCURRENCY) =>
  async (events: number) => {
    await inLanes(Array.from({ length: WARM_UP }, toDelivery), inHand, work)
    const deliveries = Array.from({ length: events }, toDelivery)
    return () => inLanes(deliveries, inHand, work)
  }
/** As an adapter hands them over: while some run, the others wait. */
const IN_HAND = 4 * CONCURRENCY
const runBatches =
  (work: (slice: readonly Delivery[]) => Promise<void>) => async (events: number) => {
    const first = Array.from({ length: WARM_UP }, () => [toDelivery()])
    await inLanes(first, CONCURRENCY, work)
    const slices = Array.from({ length: events / BATCH }, () =>
      Array.from({ length: BATCH }, toDelivery),
    )
    return () => inLanes(slices, CONCURRENCY, work)
  }

function contestants({ pool, each, shared, batch, bulk }: Testbed): readonly Contestant[] {
  const again = (guard: Guard) => async (events: number) => {
    const slices = Array.from({ length: events / BATCH }, () =>
      Array.from({ length: BATCH }, toDelivery),
    )
    await inLanes(slices, CONCURRENCY, (slice) => settle(batch, slice, 'processed'))
    return () => inLanes(slices, CONCURRENCY, (slice) => settle(guard, slice, 'duplicate'))
  }
  return [
    {
      name: 'unguarded',
      prepare: run((delivery) => inTransaction(pool, (tx) => write(tx, decode(delivery)))),
    },
    { name: 'by-hand', prepare: run((delivery) => onceByHand(pool, decode(delivery))) },
    {
      name: 'guarded-each-shared',
      prepare: run((delivery) => settle(shared, [delivery], 'processed')),
    },
    { name: 'guarded-each', prepare: run((delivery) => settle(each, [delivery], 'processed')) },
    {
      name: 'guarded-each-64',
      prepare: run((delivery) => settle(each, [delivery], 'processed'), IN_HAND),
    },
    {
      name: 'unguarded-batch',
      factor: 5,
      prepare: runBatches((slice) =>
        inTransaction(pool, async (tx) => {
          for (const delivery of slice) await write(tx, decode(delivery))
        }),
      ),
    },
    {
      name: 'guarded-batch',
      factor: 5,
      prepare: runBatches((slice) => settle(batch, slice, 'processed')),
    },
    {
      name: 'unguarded-bulk',
      factor: 10,
      prepare: runBatches((slice) => inTransaction(pool, (tx) => writeAll(tx, slice.map(decode)))),
    },
    {
      name: 'guarded-bulk',
      factor: 10,
      prepare: runBatches((slice) => settle(bulk, slice, 'processed')),
    },
    { name: 'duplicates', factor: 5, prepare: again(batch) },
  ]
}

/** The least that a guard can cost: what it sends, and nothing else. */
function statementsAlone(pool: Pool): readonly Contestant[] {
  return [
    { name: 'statements', prepare: run((delivery) => claimAndWrite(pool, decode(delivery))) },
    {
      name: 'statements-chained',
      prepare: async (events) => {
        const lanes = Array.from({ length: CONCURRENCY }, () =>
          Array.from({ length: events / CONCURRENCY }, () => decode(toDelivery())),
        )
        return () => inLanes(lanes, CONCURRENCY, (orders) => claimAndWriteChained(pool, orders))
      },
    },
    {
      name: 'statements-bulk',
      factor: 10,
      prepare: runBatches((slice) => claimAndWriteAll(pool, slice.map(decode))),
    },
  ]
}

/** @throws if a delivery was settled in another way: then something else was measured. */
export async function settle(
  guard: Guard,
  slice: readonly Delivery[],
  by: 'processed' | 'duplicate',
): Promise<void> {
  for (const settlement of await guard.processBatch(slice)) {
    if (settlement.kind !== 'ack' || settlement.by !== by) {
      throw new Error(`expected ${by}, got ${JSON.stringify(settlement)}`)
    }
  }
}

/** Median time of an empty query, microseconds. */
async function ping(pool: Pool): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < 300; i++) {
    const startedAt = performance.now()
    await pool.query('select 1')
    times.push((performance.now() - startedAt) * 1_000)
  }
  return median(times)
}
