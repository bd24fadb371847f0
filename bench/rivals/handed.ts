import { setTimeout as pause } from 'node:timers/promises'
import { until } from '@onceward/testing'
import { Pool } from 'pg'
import { HandQueue } from './hand-queue.ts'
import { newOrder, type OrderMessage } from './orders.ts'
import type { Rival } from './rival.ts'

/** Longer than any round, so that no message comes back by itself. */
const HIDDEN_MS = 60_000

/** Events before a round is timed, so that connections are open and everything has started. */
const WARM = 200

const BATCH = 100

/** A rival, its database, and the servers that it may use. */
export interface Entrant {
  readonly rival: Rival
  readonly databaseUrl: string
  readonly redisUrl: string
}

/** A rival that consumes messages from memory. */
export interface Run extends AsyncDisposable {
  /** Milliseconds until all messages are deleted and their effects committed; rejects if that takes too long. */
  deliver(orders: readonly OrderMessage[], effects: number): Promise<number>
  /** For each effect the time from the last delivery to the commit, milliseconds. */
  latencies(): Promise<readonly number[]>
}

export function ordersOf(events: number): readonly OrderMessage[] {
  return Array.from({ length: events }, () => newOrder(HIDDEN_MS))
}

/** @param observedUrl - Where effects are counted: the database itself if the contestant uses a proxy. */
export async function startRun(
  { rival, databaseUrl, redisUrl }: Entrant,
  observedUrl: string = databaseUrl,
): Promise<Run> {
  const stack = new AsyncDisposableStack()
  const pool = new Pool({ connectionString: observedUrl, max: 1 })
  pool.on('error', () => undefined)
  stack.defer(() => pool.end())
  const queue = new HandQueue()
  const { client: sqs, queueUrl } = queue
  stack.use(
    await rival.consume({
      ...{ databaseUrl, redisUrl, sqs, queueUrl, hiddenMs: HIDDEN_MS, batch: BATCH },
    }),
  )
  stack.defer(() => queue.end())
  const deliver = async (orders: readonly OrderMessage[], effects: number): Promise<number> => {
    await pool.query('truncate effects')
    queue.takenAt.clear()
    const startedAt = Date.now()
    const left = (): string => `${rival.name}: ${queue.left} messages left`
    const deletedAt = await inTime(queue.deliver(orders), left)
    const what = `the effects of ${rival.name}`
    const lastAt = await until(() => lastCommit(pool, effects), { what, everyMs: 5 })
    return Math.max(deletedAt, lastAt) - startedAt
  }
  const run: Run = {
    deliver: async (orders, effects) => {
      try {
        return await deliver(orders, effects)
      } catch (error) {
        await Promise.race([stack.disposeAsync(), pause(END_MS)])
        throw error
      }
    },
    latencies: async () => {
      const rows = await commits(pool)
      return rows.map(({ id, at }) => at - (queue.takenAt.get(id) ?? Number.NaN))
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
  await run.deliver(ordersOf(WARM), WARM)
  return run
}

/** When the last effect was committed. Some contestants write effects after they delete the message. */
async function lastCommit(pool: Pool, effects: number): Promise<number | undefined> {
  const { rows } = await pool.query('select count(*)::int as count from effects')
  if (rows[0].count < effects) return undefined
  return Math.max(...(await commits(pool)).map(({ at }) => at))
}

const COMMITS = `select order_id as id,
  (extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000)::float8 as at from effects`

async function commits(
  pool: Pool,
): Promise<readonly { readonly id: string; readonly at: number }[]> {
  const { rows } = await pool.query(COMMITS)
  return rows
}

/** A stuck consumer may never end. */
const END_MS = 10_000

/** A round that takes this long fails. Even on a busy machine it takes less. */
const DEADLINE_MS = 30_000

async function inTime<Result>(work: Promise<Result>, trouble: () => string): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(trouble())), DEADLINE_MS)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
