import { randomUUID } from 'node:crypto'
import { createGuard, type Guard, type GuardEvent, type LeaseStore } from '@onceward/core'
import { type LeaseSession, systemRuntime } from '@onceward/core/ports'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { type RedisLeasesOptions, redisLeases } from '@onceward/redis'
import { type PostgresServer, postgres, redis } from '@onceward/testing/servers'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { createEffects, DURABLE, type Order, write } from '../load/effects.ts'
import { CONCURRENCY } from '../runner/rounds.ts'

/** Beside an inbox Redis needs no disk. */
const VOLATILE = { appendonly: 'no', save: '' }

/** A long budget: on a slow machine the benchmark must not measure the fallback to Postgres. */
export const PATIENT: RedisLeasesOptions = { budgetMs: 10_000 }

const quiet = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}

/** A new Redis and a client for it. */
export interface Cache extends AsyncDisposable {
  readonly client: Redis
  readonly url: string
  /** Kills Redis. */
  kill(): Promise<void>
  /** Restarts Redis without data, on the same port. */
  restart(): Promise<void>
  /** Bytes that Redis uses for what it keeps. */
  usedBytes(): Promise<number>
}

export async function openCache(): Promise<Cache> {
  const server = await redis({ native: true, settings: VOLATILE })
  const client = new Redis(server.connection.port)
  client.on('error', () => undefined)
  return {
    client,
    url: server.connection.url,
    kill: () => server.kill(),
    restart: () => server.restart(),
    usedBytes: async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]),
    [Symbol.asyncDispose]: async () => {
      client.disconnect()
      await server.stop()
    },
  }
}

/** What a guard beside an inbox uses of Redis, in a namespace of its own. */
export async function openLeases(client: Redis): Promise<LeaseSession> {
  const leases = redisLeases(client, { ...PATIENT, namespace: randomUUID() })
  const session = await leases.open?.({
    consumer: 'bench',
    leaseMs: 30_000,
    dedupWindowMs: 1_296_000_000,
    identity: () => Promise.resolve('bench'),
    logger: quiet,
    runtime: systemRuntime,
  })
  if (session === undefined) throw new Error('redisLeases() opened no session')
  return session
}

export interface Database extends AsyncDisposable {
  readonly pool: Pool
  readonly server: PostgresServer
  /** The handler of all benchmarks, guarded. */
  guard(options: GuardSet): Guard
}

export interface GuardSet {
  readonly consumer: string
  readonly transaction: 'each' | 'batch'
  readonly leases?: LeaseStore | undefined
  /** Called with the number of events that Postgres is asked about. */
  readonly onAsked?: ((events: number) => void) | undefined
}

export async function openDatabase(): Promise<Database> {
  const server = await postgres({ settings: DURABLE })
  const pool = new Pool({
    connectionString: await server.createDatabase(),
    // The guard keeps two connections for itself.
    max: CONCURRENCY + 2,
  })
  pool.on('error', () => undefined)
  await migrate(pool)
  await createEffects(pool)
  const guards: Guard[] = []
  return {
    pool,
    server,
    guard: ({ consumer, transaction, leases, onAsked = () => undefined }) => {
      const inbox = asked(pgInbox(pool), onAsked)
      const guard = createGuard(
        { consumer, inbox, leases, transaction, concurrency: CONCURRENCY, logger: quiet },
        ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
      )
      guards.push(guard)
      return guard
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(guards.map((guard) => guard.close()))
      await pool.end()
      await server.stop()
    },
  }
}

type PgInbox = ReturnType<typeof pgInbox>

/** The same inbox, with the number of events in each claim reported: every use of Postgres begins with one. */
function asked(inbox: PgInbox, onAsked: (events: number) => void): PgInbox {
  return {
    open: async (registration) => {
      const session = await inbox.open(registration)
      const begin: typeof session.begin = (request) => {
        if (request.claim.kind !== 'none') onAsked(request.claim.events.length)
        return session.begin(request)
      }
      const suspect: typeof session.suspect = (events, waitMs) => {
        onAsked(events.length)
        return session.suspect(events, waitMs)
      }
      return new Proxy(session, {
        get: (target, name) => {
          if (name === 'begin') return begin
          if (name === 'suspect') return suspect
          const value: unknown = Reflect.get(target, name)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
    },
  }
}
