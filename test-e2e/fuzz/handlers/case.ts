import {
  createBatchGuard,
  createGuard,
  type Delivery,
  type Guard,
  type Inbox,
  type LeaseStore,
  type Logger,
  type OutcomeRecord,
} from '@onceward/core'
import { memoryInbox, memoryLeases, toDelivery } from '@onceward/core/memory'
import { postgresLeases } from '@onceward/postgres'
import { kyselyInbox } from '@onceward/postgres/kysely'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { createDice, hashText } from '../../simulation/world/dice.ts'
import { createClock, DEADLINE_MS } from './clock.ts'
import { createHandlers } from './handlers.ts'
import type { History } from './history.ts'
import { leftovers, questions } from './leftovers.ts'
import type { Plan } from './plan.ts'
import { describe, endsWithin, ownPoolName, type Shared } from './shared.ts'
import type { Testbed } from './testbed.ts'

/** One case: guards with pools of their own, and all that is noted about them. */
export interface ZooCase {
  readonly guards: readonly Guard[]
  readonly surprises: string[]
  delivery(event: number): Delivery
  /** Lets time pass between two rounds. */
  pass(ms: number): Promise<void>
  /** Closes everything and looks at what is left. */
  close(isInTime: boolean): Promise<Ended>
}

export type Ended = Pick<History, 'runs' | 'rows' | 'states' | 'nested' | 'left' | 'surprises'>

let cases = 0

const ignore = (): void => undefined
const silent: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

export async function openCase(testbed: Testbed, plan: Plan): Promise<ZooCase> {
  cases += 1
  const consumer = `zoo-${process.pid}-${cases}`
  const dice = createDice(hashText(JSON.stringify(plan)))
  const isLeft = plan.events.some(({ runs }) =>
    runs.some(({ steps }) => steps.some(({ step }) => /left open|long statement/.test(step))),
  )
  const clock = createClock(() => dice.next(), isLeft)
  const shared: Shared = {
    ...{ testbed, plan, consumer, clock, surprises: [], nested: new Set(), pools: [] },
    ...{ runs: [], failures: new Map() },
    delivery: (event) => deliveryOf(plan, event),
  }
  const worker = createWorkers(shared)
  const guards = Array.from({ length: plan.workers }, worker)
  const stopListening = noteUnhandled(shared)
  return {
    guards: guards.map(({ guard }) => guard),
    surprises: shared.surprises,
    delivery: shared.delivery,
    pass: async (ms) => {
      clock.advance(ms)
      if (plan.driver !== 'memory') await testbed.admin.query(AGEING, [ms])
      if (plan.leases === 'redis') await endClaims(testbed, consumer)
    },
    close: async (isInTime) => {
      const left = await closeAll(shared, guards, isInTime)
      const found = plan.driver === 'memory' ? undefined : await questions(shared)
      stopListening()
      return {
        ...{ runs: shared.runs, nested: [...shared.nested], surprises: shared.surprises, left },
        ...{ rows: found?.rows, states: found?.states },
      }
    },
  }
}

const POOL_MS = 5_000

/** Rows grow older on the server, whose clock nobody can set. */
export const AGEING = `
with older as (select $1::float8 * interval '1 millisecond' as by),
leases as (update onceward.leases set ends_at = ends_at - older.by from older where state in ('p', 'w'))
update onceward.failed_events
set counted_at = counted_at - older.by, next_try = next_try - older.by from older`

/** As if they had expired, because nobody can set the clock of Redis either. What it knows of done events stays. */
async function endClaims({ redis }: Testbed, namespace: string): Promise<void> {
  const keys = (await redis?.keysBuffer(`{o:${namespace}.*}e*`)) ?? []
  if (keys.length > 0) await redis?.del(...keys)
}

function deliveryOf({ events }: Plan, event: number): Delivery {
  const key = `event-${event}`
  const lane = events[event]?.lane
  return toDelivery(
    { number: event },
    {
      headers: { 'idempotency-key': key },
      messageId: key,
      source: { broker: 'memory', queue: 'zoo', position: String(event) },
      ...(lane === undefined ? {} : { orderingKey: `lane-${lane}` }),
    },
  )
}

/** What one worker has: its guard of the consumer, and others that handlers use. */
interface Worker {
  readonly guard: Guard
  readonly others: readonly Guard[]
}

function createWorkers(shared: Shared): () => Worker {
  const { plan, clock, consumer } = shared
  const inbox = memoryInbox()
  const leases = memoryLeases(clock.runtime)
  return () => {
    const pool = newPool(shared)
    const options = {
      consumer,
      runtime: clock.runtime,
      logger: silent,
      concurrency: plan.concurrency,
      deadlineMs: DEADLINE_MS,
      claimWaitMs: 50,
      retry: { attempts: plan.attempts, baseMs: 1, maxMs: 1 },
      observe: (record: OutcomeRecord) => noteOutcome(shared, record),
      ...leasesOf(shared, leases, pool),
    }
    const client = inboxOf(shared, pool, inbox)
    const elsewhere = plan.driver === 'memory' ? client : inboxOf(shared, newPool(shared), inbox)
    const handlers = createHandlers(shared, { pool })
    const other = {
      ...options,
      observe: undefined,
      consumer: `${consumer}-other`,
      leases: undefined,
    }
    const others = [client, elsewhere].map((each) =>
      createGuard({ ...other, inbox: each }, handlers.other as never),
    )
    const guard: Guard =
      plan.mode === 'together'
        ? createBatchGuard({ ...options, inbox: client }, handlers.together as never)
        : createGuard(
            { ...options, inbox: client, transaction: plan.mode },
            handlers.single as never,
          )
    handlers.use({ guard, others })
    return { guard, others }
  }
}

function newPool({ consumer, pools, plan, testbed }: Shared): pg.Pool {
  const max = 2 * plan.concurrency + 4
  const pool = new pg.Pool({
    ...{ connectionString: testbed.url, max, idleTimeoutMillis: 0, application_name: consumer },
  })
  pool.on('error', () => undefined)
  pools.push(pool)
  return pool
}

function inboxOf(
  { plan: { driver, hasOwnPool }, testbed, consumer }: Shared,
  pool: pg.Pool,
  memory: Inbox<undefined>,
): Inbox<never> {
  if (driver === 'memory') return memory as Inbox<never>
  if (hasOwnPool) {
    // Idle connections stay until the guard ends the pool, so that one that does not end is seen.
    const config = { connectionString: testbed.url, idleTimeoutMillis: 0 }
    return pgInbox({ ...config, application_name: ownPoolName(consumer) }) as Inbox<never>
  }
  if (driver === 'pg') return pgInbox(pool) as Inbox<never>
  const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) })
  return kyselyInbox(db, { poolSize: pool.options.max }) as Inbox<never>
}

/** A busy machine must not make an outage of Redis. */
const REDIS_MS = 5_000

function leasesOf(
  { plan, testbed: { redis }, consumer }: Shared,
  memory: LeaseStore,
  pool: pg.Pool,
): { readonly leases?: LeaseStore } {
  switch (plan.leases) {
    case 'none':
      return {}
    case 'memory':
      return { leases: memory }
    case 'postgres':
      return { leases: postgresLeases(pool) }
    case 'redis':
      if (redis === undefined) throw new Error('the testbed has no Redis')
      return { leases: redisLeases(redis, { budgetMs: REDIS_MS, namespace: consumer }) }
  }
}

/** Counts verdicts, as soon as they are known. Only the first of several copies tells one. */
function noteOutcome({ failures }: Shared, { settlement, source }: OutcomeRecord): void {
  if (settlement.kind !== 'defer' || settlement.cause !== 'handler-failed') return
  const event = Number(source.position)
  failures.set(event, (failures.get(event) ?? 0) + 1)
}

function noteUnhandled({ surprises }: Shared): () => void {
  const note = (error: unknown): void => {
    surprises.push(`unhandled: ${describe(error)}`)
  }
  process.on('unhandledRejection', note)
  process.on('uncaughtException', note)
  return () => {
    process.off('unhandledRejection', note)
    process.off('uncaughtException', note)
  }
}

async function closeAll(
  shared: Shared,
  workers: readonly Worker[],
  isInTime: boolean,
): Promise<readonly string[]> {
  const guards = workers.flatMap(({ guard, others }) => [guard, ...others])
  const left = await leftovers(shared, guards, isInTime)
  // A connection that does not come back keeps its pool from ending.
  const ending = Promise.all(shared.pools.map((pool) => pool.end()))
  return (await endsWithin(ending, POOL_MS)) ? left : [...left, 'a pool does not end']
}
