import { ConfigurationError, type Inbox } from '@onceward/core'
import { refuseUnfitClient } from '@onceward/core/adapter'
import type { Knex } from 'knex'
import type { Client, Pool, PoolClient } from 'pg'
import type { LibraryTransaction } from './clients/pg-connection.ts'
import { lentPool } from './orm/lent-pool.ts'
import type { OrmInboxOptions } from './orm/options.ts'
import { pgLibraryInbox } from './orm/pg-library-inbox.ts'

/** Options of {@link knexInbox}. */
export type KnexInboxOptions = OrmInboxOptions

/**
 * The durable guard of a consumer on Knex: handlers get the user's own `Knex.Transaction`.
 *
 * @param knex - An instance with the client `pg`. What a handler writes with `knex` itself is outside of the transaction:
 * repositories must write with the `tx` that they are given.
 * @param options - The connection for the guard's own statements, as `connectionString` or `pool`.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { knexInbox } from '@onceward/postgres/knex'
 * import createKnex from 'knex'
 *
 * const connectionString = process.env.DATABASE_URL ?? ''
 * const knex = createKnex({ client: 'pg', connection: connectionString })
 * const inbox = knexInbox(knex, { connectionString })
 * const billing = createGuard(
 *   { consumer: 'billing', inbox, schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx('charges').insert({ order_id: orderId, cents })
 *   },
 * )
 * ```
 */
export function knexInbox<Row extends NonNullable<unknown>, Result>(
  knex: Knex<Row, Result>,
  options: KnexInboxOptions,
): Inbox<Knex.Transaction<Row, Result>> {
  refuseUnfitClient('knexInbox', knex, {
    expected: 'an instance of Knex',
    methods: ['transaction', 'raw'],
    field: 'client',
  })
  const { client } = knex as { readonly client: KnexClient }
  if (knex.isTransaction === true) {
    throw new ConfigurationError(
      'Expected knexInbox to get an instance of Knex, got one of its transactions: the guard would commit it. Give the instance that the transaction was begun on.',
    )
  }
  if (client.driverName !== 'pg') {
    throw new ConfigurationError(
      `Expected knexInbox to get a Knex for PostgreSQL (\`client: 'pg'\`), got one for \`${String(client.driverName)}\`.`,
    )
  }
  const toTransaction = (guarded: PoolClient): Promise<KnexTransaction<Row, Result>> =>
    begin(knex, guarded)
  return pgLibraryInbox('knexInbox', { pool: poolOf(client), toTransaction }, options)
}

type KnexTransaction<Row extends NonNullable<unknown>, Result> = LibraryTransaction<
  Knex.Transaction<Row, Result>
>

async function begin<Row extends NonNullable<unknown>, Result>(
  knex: Knex<Row, Result>,
  connection: PoolClient,
): Promise<KnexTransaction<Row, Result>> {
  const tx = await knex.transaction({ connection })
  return {
    tx: tx as Knex.Transaction<Row, Result>,
    end: (isCommitted) => {
      if (!tx.isCompleted()) void (isCommitted ? tx.commit() : tx.rollback())
    },
  }
}

/** What is used of Knex's client for PostgreSQL. */
interface KnexClient {
  readonly driverName: unknown
  readonly pool?: KnexPool
  acquireConnection(): Promise<KnexConnection>
  releaseConnection(connection: KnexConnection): Promise<void>
}

/** Knex's own pool, or one that the user has given it, which need not tell its numbers. */
interface KnexPool {
  readonly max?: number
  numUsed?(): number
  numFree?(): number
  numPendingAcquires?(): number
}

/** Knex closes a connection that is marked so in place of lending it again. */
type KnexConnection = Client & { __knex__disposed?: unknown }

const pools = new WeakMap<KnexClient, Pool>()

function poolOf(client: KnexClient): Pool {
  const known = pools.get(client)
  if (known !== undefined) return known
  const made = lentPool<KnexConnection>({
    max: client.pool?.max,
    use: () => ({
      used: client.pool?.numUsed?.() ?? 0,
      idle: client.pool?.numFree?.() ?? 0,
      waiting: client.pool?.numPendingAcquires?.() ?? 0,
    }),
    take: () => client.acquireConnection(),
    give: (connection, isBroken) => {
      if (isBroken) {
        connection.__knex__disposed ??= BROKEN
        const { stream } = (connection as unknown as PoolClient).connection
        stream.destroy()
      }
      void client.releaseConnection(connection)
    },
  })
  pools.set(client, made)
  return made
}

const BROKEN = 'onceward has closed this connection'
