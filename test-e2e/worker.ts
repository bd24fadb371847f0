/*
 * The process that tests kill: an ordinary consumer of orders whose handler writes one effect each. Started by
 * support/worker-process.ts with its configuration as the only argument, it talks to the test over IPC.
 */
import { flushCompileCache } from 'node:module'
import {
  type AfterCommitInfo,
  type Consumption,
  createGuard,
  type Delivery,
  type Guard,
  type GuardEvent,
  type InboxGuardOptions,
  type OutcomeRecord,
  position,
} from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool, type PoolClient } from 'pg'
import { BROKERS, isBrokerName } from './brokers/index.ts'
import { crashes } from './support/crash/crash.ts'
import { watched } from './support/crash/crash-inbox.ts'
import { leasesOf } from './support/crash/crash-leases.ts'
import { watchedGuard } from './support/crash/crash-port.ts'
import { watchWire } from './support/crash/crash-wire.ts'
import { createHandler, type Send } from './support/workers/handler.ts'
import { connectOrm } from './support/workers/orm-inboxes.ts'
import { measureUsage } from './support/workers/process-usage.ts'
import type { ManualDelivery, Order, Settled, WorkerConfig } from './support/workers/protocol.ts'
import { listen, logger, say } from './support/workers/worker-channel.ts'
import { runtimeOf } from './support/workers/wrong-clock.ts'

const config = JSON.parse(process.argv[2] ?? '{}') as WorkerConfig
const { source } = config

const pool = new Pool({ connectionString: config.databaseUrl, max: config.poolMax ?? 10 })
// A lost idle connection must not end the process.
pool.on('error', () => undefined)
/** In place of the pool for the transactions of the handler, if the test wants one. */
const orm = await connectOrm(config)

/** Which order a message of the broker stands for, by its position and by its delivery. */
const orders = new Map<string, string>()
const ordersOfSources = new WeakMap<Delivery['source'], string>()
const received = new Map<string, number>()
const positionOf = position()
const crash = crashes(config)
const runtime = runtimeOf(config)

const options: InboxGuardOptions<Order, unknown> = {
  consumer: config.consumer ?? 'orders',
  inbox: watched<unknown>(orm?.inbox({ pool }) ?? pgInbox(pool), {
    onClaim: (keys) => crash.at('before-begin', keys),
  }),
  leases: leasesOf(config, crash),
  eventKey: (delivery) => {
    const { id } = delivery.payload
    ordersOfSources.set(delivery.source, id)
    return config.identity === 'position' ? positionOf(delivery) : id
  },
  ...(config.decodes === true ? { decode: decodeOrder } : {}),
  ...(config.splits === true
    ? { split: ({ payload }: { payload: Order }) => payload.items ?? [payload] }
    : {}),
  transaction: config.transaction,
  leaseMs: config.leaseMs ?? 1_000,
  claimWaitMs: config.claimWaitMs,
  ...(config.concurrency === undefined ? {} : { concurrency: config.concurrency }),
  deadlineMs: config.deadlineMs ?? 30_000,
  retry: { attempts: config.attempts ?? 5, baseMs: config.retryBaseMs ?? 100 },
  ...(config.replies === true ? { afterCommit: reply } : {}),
  observe: (record) => say({ kind: 'settled', settled: toSettled(record) }),
  logger,
  runtime,
}
const handler = createHandler(config, crash, orm?.runOn ?? sendOnPg)
const guard = createGuard<unknown, unknown, Order>(options, handler)

function sendOnPg(tx: unknown): Send {
  return async (text, values = []) => (await (tx as PoolClient).query(text, [...values])).rows
}

async function reply(
  _: unknown,
  { payload }: GuardEvent<Order>,
  { duplicate }: AfterCommitInfo,
): Promise<void> {
  await crash.at('before-reply', [payload.id])
  if (payload.deed === 'fail-reply-once' && !duplicate) throw new Error('the first reply fails')
  await pool.query('insert into replies values ($1, $2)', [payload.id, duplicate])
}

/** A decoder that dies of some orders, as one does that runs out of memory. */
function decodeOrder(body: Uint8Array): Order {
  const order = JSON.parse(Buffer.from(body).toString()) as Order
  if (order.deed === 'kill-decoder') process.kill(process.pid, 'SIGKILL')
  return order
}

function toSettled({ settlement, attempt, source: from }: OutcomeRecord): Settled {
  const why = settlement.kind === 'ack' ? settlement.by : settlement.reason
  const error = 'error' in settlement ? settlement.error : undefined
  return {
    kind: settlement.kind,
    why,
    attempt,
    id: ordersOfSources.get(from) ?? orders.get(from.position ?? ''),
    ...(settlement.kind === 'defer' ? { waitMs: settlement.until - runtime.now() } : {}),
    ...(error === undefined ? {} : { error: String(error) }),
  }
}

/** Loads the one adapter that the source needs, so that the process starts sooner. */
async function consume(): Promise<Consumption | undefined> {
  if (!isBrokerName(source.kind)) return undefined
  const broker = BROKERS[source.kind]
  watchWire(broker.words, crash)
  const { consume: consumeFrom } = await broker.consumer()
  const consumeWith = (made: Guard): Promise<Consumption> =>
    consumeFrom(source, watchedGuard(made, { crash, longestDeferMs: config.longestDeferMs }), {
      onReceive: (order, position) => {
        received.set(order, (received.get(order) ?? 0) + 1)
        if (position !== undefined) orders.set(position, order)
      },
    })
  if (config.nest === undefined) return consumeWith(guard)
  const { startService } = await import('./support/workers/nest-service.ts')
  return startService(config.nest, { options, handler, consume: consumeWith })
}

/** Processes deliveries of the test as an adapter does: each settlement is reported as soon as it is known. */
async function processManually(deliveries: readonly ManualDelivery[]): Promise<void> {
  const made = deliveries.map(({ order, deliveryCount }) => {
    orders.set(order.id, order.id)
    return {
      body: Buffer.from(JSON.stringify(order)),
      headers: {},
      source: { broker: 'manual', queue: 'manual', position: order.id },
      deliveryCount,
      redelivered: deliveryCount > 1,
    }
  })
  await portOf(guard).run(made)
  say({ kind: 'delivered' })
}

let consuming: Promise<Consumption | undefined> | undefined
const taken: PoolClient[] = []

async function takePool(): Promise<void> {
  for (let left = config.poolMax ?? 10; left > 0; left -= 1) taken.push(await pool.connect())
  say({ kind: 'pool-taken' })
}

async function stop(): Promise<void> {
  // The consumption may still be starting.
  await (await consuming)?.drain()
  await guard.close()
  await orm?.close()
  await pool.end()
  process.disconnect()
}

listen({
  start: async () => {
    consuming = consume()
    await consuming
    flushCompileCache()
    say({ kind: 'started' })
  },
  deliver: ({ deliveries }) => processManually(deliveries),
  'take-pool': takePool,
  'free-pool': async () => {
    for (const client of taken.splice(0)) client.release()
    say({ kind: 'pool-freed' })
  },
  'ask-health': async () => {
    const { state = 'none', reason, inFlight = 0 } = (await consuming)?.health() ?? {}
    say({ kind: 'health', state, inFlight, ...(reason === undefined ? {} : { reason }) })
  },
  'ask-received': async ({ id }) => {
    say({ kind: 'received', id, count: received.get(id) ?? 0 })
  },
  'ask-usage': async () => {
    // These maps grow with every order, and settled orders are not needed any more.
    for (const notes of [orders, received]) notes.clear()
    say({ kind: 'usage', usage: measureUsage() })
  },
  drain: async () => {
    await (await consuming)?.drain()
    say({ kind: 'drained' })
  },
  stop,
})

// A killed process cannot write the cache at its end.
flushCompileCache()
// No store is opened yet, because an open guard would run parked events.
say({ kind: 'ready' })
