import { ConfigurationError, type Inbox } from '@onceward/core'
import { hasMethod, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { ConsumerRegistration } from '@onceward/core/ports'
import type { Pool } from 'pg'
import type { Sql } from 'postgres'
import type { Driver } from './driver/driver.ts'
import { withConnection } from './driver/inbox-connection.ts'
import { createInbox } from './inbox/inbox.ts'
import { BUSINESS_OPTIONS, businessOptions } from './options.ts'
import { checkOptions, type OrmInboxOptions } from './orm/check-options.ts'
import { type DrizzleSession, drizzleOnPg, drizzleTransaction } from './orm/drizzle-handle.ts'
import type { OrmBegin, OrmTransaction } from './orm/orm-connection.ts'
import { ormDriver } from './orm/orm-driver.ts'
import { beginPostgresJs, postgresJsStatements } from './orm/postgres-js-client.ts'
import { pgDriver } from './pg-driver.ts'

/**
 * Options of {@link drizzleInbox}. Over node-postgres, the connection for the guard's own statements is required, as
 * `connectionString` or `pool`. Over postgres.js both may be left out: the guard's own statements then take connections
 * of postgres.js, and pg is not needed.
 */
export type DrizzleInboxOptions = OrmInboxOptions

/** The part of a database of Drizzle that {@link drizzleInbox} uses. */
export interface DrizzleDatabase {
  readonly _: { readonly session: unknown }
  readonly transaction: (callback: never) => unknown
}

/** The transaction of a database of Drizzle, with its schema. */
export type DrizzleTransactionOf<Db extends DrizzleDatabase> = Parameters<
  Db['transaction']
>[0] extends (tx: infer Tx) => unknown
  ? Tx
  : never

/**
 * The durable guard of a consumer on Drizzle, over node-postgres or over postgres.js: handlers get the user's own
 * transaction, as `db.transaction()` gives it.
 *
 * @param db - A database of Drizzle over a pool of pg, or over postgres.js. What a handler writes with `db` itself is
 * outside of the transaction: repositories must write with the `tx` that they are given.
 * @param options - Over node-postgres: the connection for the guard's own statements, as `connectionString` or `pool`.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { drizzleInbox } from '@onceward/postgres/drizzle'
 * import { drizzle } from 'drizzle-orm/node-postgres'
 * import { integer, pgTable, text } from 'drizzle-orm/pg-core'
 *
 * const charges = pgTable('charges', { orderId: text('order_id'), cents: integer() })
 * const connectionString = process.env.DATABASE_URL ?? ''
 * const db = drizzle(connectionString)
 *
 * const inbox = drizzleInbox(db, { connectionString })
 * const billing = createGuard(
 *   { consumer: 'billing', inbox, schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx.insert(charges).values({ orderId, cents })
 *   },
 * )
 * ```
 */
export function drizzleInbox<Db extends DrizzleDatabase>(
  db: Db,
  options: DrizzleInboxOptions = {},
): Inbox<DrizzleTransactionOf<Db>> {
  refuseUnfitClient('drizzleInbox', db, {
    expected: 'a database of Drizzle',
    methods: ['transaction', 'select'],
    field: '_',
  })
  if (hasMethod(db, 'rollback')) {
    throw new ConfigurationError(
      'Expected drizzleInbox to get a database of Drizzle, got one of its transactions: the guard would commit it. Give the database that the transaction was begun on.',
    )
  }
  const session = db._.session as DrizzleSession
  const { client } = session
  if (isSql(client)) return onPostgresJs(session, client, options)
  if (isPool(client)) return onNodePostgres(session, client, options)
  throw new ConfigurationError(
    'Expected drizzleInbox to get a Drizzle over a pool of pg (`drizzle(new Pool(…))` of drizzle-orm/node-postgres) or over postgres.js (drizzle-orm/postgres-js), got another one.',
  )
}

const isSql = (client: unknown): client is Sql =>
  typeof client === 'function' && hasMethod(client, 'begin') && hasMethod(client, 'unsafe')

const isPool = (client: unknown): client is Pool =>
  typeof client === 'object' &&
  client !== null &&
  hasMethod(client, 'connect') &&
  'totalCount' in client

/** Who uses postgres.js need not have pg, so what needs it is loaded when a guard starts. */
function onNodePostgres<Tx>(
  session: DrizzleSession,
  pool: Pool,
  options: DrizzleInboxOptions,
): Inbox<Tx> {
  checkOptions('drizzleInbox', options)
  const open: Inbox<Tx>['open'] = async (registration) => {
    const { pgLibraryInbox } = await import('./orm/pg-library-inbox.ts')
    const library = {
      pool,
      toTransaction: (guarded: object) => drizzleOnPg<Tx>(session, guarded),
    }
    return pgLibraryInbox('drizzleInbox', library, options).open(registration)
  }
  return withConnection({ open }, options)
}

function onPostgresJs<Tx>(
  session: DrizzleSession,
  sql: Sql,
  options: DrizzleInboxOptions,
): Inbox<Tx> {
  const { connectionString, pool, ...own } = options
  const isOwn = connectionString !== undefined || pool !== undefined
  if (!isOwn) refuseUnknownNames('drizzleInbox', own, BUSINESS_OPTIONS)
  const settings = isOwn ? checkOptions('drizzleInbox', options).settings : businessOptions(own)
  const client = {
    ...{ takesSeveral: true, pipelines: true },
    begin: (request: OrmBegin) => beginOnPostgresJs<Tx>(session, sql, request),
  }
  const parts = { client, pool: sql, poolSize: sql.options.max, settings }
  const open: Inbox<Tx>['open'] = async (registration) => {
    const statements = isOwn ? await pgStatements(options, registration) : undefined
    const toDriver = ({ runtime }: ConsumerRegistration): Driver<Tx> =>
      ormDriver({ ...parts, runtime, own: statements ?? postgresJsStatements(sql, runtime) })
    return createInbox(toDriver, options).open(registration)
  }
  return withConnection({ open }, options)
}

/** The guard's own statements over the pool of pg that the user has named. */
async function pgStatements(
  options: DrizzleInboxOptions,
  registration: ConsumerRegistration,
): Promise<Driver<unknown>> {
  const { ormOptions } = await import('./orm/options.ts')
  const { openPool, settings } = ormOptions('drizzleInbox', options)
  const { pool, close } = openPool(registration)
  return { ...pgDriver(pool, settings, registration.runtime), close } as Driver<unknown>
}

/** Drizzle makes its transaction on a client whose own has begun. */
async function beginOnPostgresJs<Tx>(
  session: DrizzleSession,
  sql: Sql,
  request: OrmBegin,
): Promise<OrmTransaction<Tx>> {
  const outer = await beginPostgresJs(sql, request)
  const begin = (callback: (tx: unknown) => Promise<void>): Promise<void> => callback(outer.tx)
  const inner = await drizzleTransaction(session, { begin })
  return {
    tx: inner.tx as Tx,
    get lost() {
      return outer.lost
    },
    query: outer.query,
    ...(outer.prepared === undefined ? {} : { prepared: outer.prepared }),
    ...(outer.cancel === undefined ? {} : { cancel: outer.cancel }),
    commit: async () => {
      await inner.commit()
      await outer.commit()
    },
    rollback: async () => {
      await inner.rollback()
      await outer.rollback()
    },
  }
}
