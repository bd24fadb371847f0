import { EventEmitter } from 'node:events'
import { ConfigurationError } from '@onceward/core'
import type { PgPool, PgQueryResult, Queue } from 'bullmq'
// A namespace, because BullMQ 5 has no backend for PostgreSQL: the other functions work with it.
import * as bullmq from 'bullmq'

/** The part of a handler's `tx` that {@link jobsIn} uses: of `pgInbox`, and of every client that takes pg's calls. */
export interface QueryableTransaction {
  query(text: string, values?: unknown[]): Promise<PgQueryResult>
}

/** What {@link jobsIn} returns. */
export interface TransactionJobs {
  /**
   * The queue of this name, whose calls are statements of the transaction. For adding jobs: `add`, `addBulk`. It needs no
   * closing.
   */
  // biome-ignore lint/suspicious/noExplicitAny: as BullMQ types the data of its jobs
  queue<Data = any, Result = any>(name: string): Queue<Data, Result>
}

/** Options of {@link jobsIn}. */
export interface JobsInOptions {
  /**
   * The schema of BullMQ's tables.
   *
   * @defaultValue `'bullmq'`
   */
  readonly schema?: string | undefined
}

const NAME = /^[A-Za-z_][A-Za-z0-9_$]{0,62}$/

/**
 * BullMQ's queues in the transaction of a handler: jobs are added when it commits, and not when it rolls back. For BullMQ 6
 * with its PostgreSQL backend in the same database. The backend's tables must be there (`runMigrations` of bullmq).
 *
 * With Redis behind BullMQ, send jobs with the outbox and {@link bullmqDestination}.
 *
 * @param tx - The `tx` of a handler of `pgInbox`. Its `search_path` is that of the handler again after each call.
 * @throws {@link ConfigurationError} if `tx` has no `query` as that of pg.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { jobsIn } from '@onceward/bullmq'
 * import { pgInbox } from '@onceward/postgres/pg'
 *
 * const options = { consumer: 'signups', inbox: pgInbox(pool), schema: OrderPlaced }
 * const signups = createGuard(options, async ({ payload: { orderId } }, { tx }) => {
 *   await tx.query('insert into orders (id) values ($1)', [orderId])
 *   await jobsIn(tx).queue('mails').add('confirmation', { orderId })
 * })
 * ```
 */
export function jobsIn(tx: QueryableTransaction, options: JobsInOptions = {}): TransactionJobs {
  const { schema = 'bullmq' } = options
  if (typeof Reflect.get(Object(tx), 'query') !== 'function') throw new ConfigurationError(NO_QUERY)
  if (!NAME.test(schema)) {
    throw new ConfigurationError('Expected `schema` of jobsIn to be the name of a schema.')
  }
  const { createPostgresBackend, Queue } = bullmq
  if (createPostgresBackend === undefined) throw new ConfigurationError(TOO_OLD)
  const connection = poolOf(tx, schema)
  return {
    queue: (name) => {
      const options = { connection, skipMetasUpdate: true }
      return new Queue(name, options, createPostgresBackend) as never
    },
  }
}

const TOO_OLD =
  'jobsIn needs BullMQ 6, which keeps queues in PostgreSQL. With BullMQ 5 send jobs with `context.outbox` and bullmqDestination.'
const NO_QUERY =
  'Expected jobsIn to get the `tx` of a handler whose inbox is pgInbox: one with `query(text, values)`. With another ' +
  'inbox, send jobs with `context.outbox` and bullmqDestination.'

/**
 * The transaction in the shape of a pool of pg, with one connection that is never given back.
 *
 * The names in BullMQ's statements have no schema, so each is between two that set the `search_path` and restore it. They are
 * sent one by one, as pg 9 demands it.
 */
function poolOf(tx: QueryableTransaction, schema: string): PgPool {
  let last: Promise<unknown> = Promise.resolve()
  const send = async (text: string, values?: readonly unknown[]): Promise<PgQueryResult> => {
    await tx.query(SET_PATH, [schema])
    const answer = await tx.query(text, values && [...values])
    // Not after a failure: it ends the transaction, or its savepoint and the setting with it.
    await tx.query(RESTORE_PATH)
    return answer
  }
  const query = (text: string, values?: readonly unknown[]): Promise<PgQueryResult> => {
    const sent = last.then(() => send(text, values))
    last = sent.catch(() => undefined)
    return sent
  }
  const client = Object.assign(new EventEmitter(), { query, release: () => undefined })
  const pool = { query, connect: async () => client, end: async () => undefined }
  return Object.assign(new EventEmitter(), pool) as unknown as PgPool
}

const SET_PATH =
  "select set_config('search_path', quote_ident($1) || ', ' || set_config('onceward.search_path', current_setting('search_path'), true), true)"
const RESTORE_PATH =
  "select set_config('search_path', current_setting('onceward.search_path'), true)"
