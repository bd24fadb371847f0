import {
  createGuard,
  type Guard,
  type GuardEvent,
  type Inbox,
  type LeaseStore,
  type Logger,
  type OutcomeRecord,
} from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { type DeadLetter, type DeadLetterRef, systemRuntime } from '@onceward/core/ports'
import { deadLetters, migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { database, redis } from '@onceward/testing'
import { Redis } from 'ioredis'
import { Pool, type PoolClient } from 'pg'
import { keyIn } from './expected.ts'
import { KEY_HEADER } from './messages.ts'

/** A delivery comes back from PostgreSQL soon, and not after the seconds of a real guard. */
const POLL_MS = 50

/** The stores under a guard. */
export interface Setup {
  readonly name: string
  guard(options: GuardUnderTest): Guard
  letters(consumer: string): Promise<readonly DeadLetter[]>
  /** Whether the dead letter is parked now. */
  replay(ref: DeadLetterRef): Promise<boolean>
  /** Committed effects by the queue of their event. */
  effects(consumer: string): Promise<ReadonlyMap<string, number>>
}

export interface GuardUnderTest {
  readonly consumer: string
  readonly logger: Logger
  readonly observe: (record: OutcomeRecord) => void
  /** Before the effect. Throws if the run fails. */
  readonly handle: (event: GuardEvent<unknown>) => void
}

type Effect<Tx> = (consumer: string, event: GuardEvent<unknown>, tx: Tx) => Promise<void>

function newGuard<Tx>(
  stores: { readonly inbox: Inbox<Tx>; readonly leases?: LeaseStore | undefined },
  { consumer, handle, logger, observe }: GuardUnderTest,
  effect: Effect<Tx>,
): Guard {
  const { setTimer } = systemRuntime
  return createGuard<Tx>(
    {
      ...{ ...stores, consumer, logger, observe },
      eventKey: [
        ({ headers }) => headers[KEY_HEADER],
        ({ payload }) => (keyIn(payload) ?? undefined) as string | undefined,
      ],
      runtime: {
        ...systemRuntime,
        // Background work has the only timers that do not keep the process alive.
        setTimer: (callback, delayMs, options) =>
          options?.keepAlive === false
            ? setTimer(callback, Math.min(delayMs, POLL_MS), options)
            : setTimer(callback, delayMs, options),
      },
    },
    async (event, { tx }) => {
      handle(event)
      await effect(consumer, event, tx)
    },
  )
}

export function memorySetup(): Setup {
  const inbox = memoryInbox()
  const counts = new Map<string, Map<string, number>>()
  const of = (consumer: string): Map<string, number> => {
    const found = counts.get(consumer) ?? new Map<string, number>()
    counts.set(consumer, found)
    return found
  }
  return {
    name: 'memory',
    guard: (options) =>
      newGuard({ inbox }, options, async (consumer, { source: { queue } }) => {
        of(consumer).set(queue, (of(consumer).get(queue) ?? 0) + 1)
      }),
    letters: async (consumer) => inbox.deadLetters().filter((one) => one.consumer === consumer),
    replay: async (ref) => inbox.replay(ref),
    effects: async (consumer) => of(consumer),
  }
}

function postgresSetup(pool: Pool, leases?: LeaseStore): Setup {
  const inbox = pgInbox(pool)
  const operator = deadLetters(pool)
  return {
    name: leases === undefined ? 'Postgres' : 'Postgres and Redis',
    guard: (options) =>
      newGuard<PoolClient>({ inbox, leases }, options, async (consumer, { source }, tx) => {
        await tx.query('insert into effects values ($1, $2)', [consumer, source.queue])
      }),
    letters: async (consumer) => {
      const letters: DeadLetter[] = []
      for await (const letter of operator.list({ consumer })) letters.push(letter)
      return letters
    },
    replay: async ({ id }) => (await operator.replay(id)).done.length === 1,
    effects: async (consumer) => {
      const { rows } = await pool.query<{ queue: string; n: number }>(
        'select queue, count(*)::int as n from effects where consumer = $1 group by queue',
        [consumer],
      )
      return new Map(rows.map(({ queue, n }) => [queue, n]))
    },
  }
}

export interface Setups extends AsyncDisposable {
  /** The setups; the one in memory is new each time. */
  all(): readonly Setup[]
}

/** Starts the servers that all plans share. */
export async function openSetups(): Promise<Setups> {
  const [{ url }, server] = await Promise.all([database(), redis({ native: true })])
  const pool = new Pool({ connectionString: url, max: 10 })
  const client = new Redis(server.connection.port)
  await migrate(pool)
  await pool.query('create table effects (consumer text not null, queue text not null)')
  const leases = redisLeases(client, { budgetMs: 5_000 })
  return {
    all: () => [memorySetup(), postgresSetup(pool), postgresSetup(pool, leases)],
    [Symbol.asyncDispose]: async () => {
      await pool.end()
      client.disconnect()
      await server.stop()
    },
  }
}
