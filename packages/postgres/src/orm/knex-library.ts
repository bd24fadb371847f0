import type { Knex } from 'knex'
import type { Client, Pool, PoolClient } from 'pg'
import type { LibraryTransaction } from '../clients/pg-connection.ts'
import { lentPool } from './lent-pool.ts'
import type { SurroundingLibrary } from './pg-library-inbox.ts'
import { isWrite } from './root-writes.ts'

/** Knex, and what is built on it, as a library over pg. */
export function knexLibrary<Row extends NonNullable<unknown>, Result>(
  knex: Knex<Row, Result>,
): SurroundingLibrary<Knex.Transaction<Row, Result>> {
  const { client } = knex as { readonly client: KnexClient }
  const connections = new WeakMap<object, PoolClient>()
  return {
    pool: poolOf(client),
    toTransaction: async (guarded) => {
      const begun = await begin(knex, guarded)
      connections.set(begun.tx, guarded)
      return begun
    },
    rootWatch: {
      listen: (seen) => {
        const onQuery = ({ __knexUid, sql }: KnexQuery): void => {
          if (isWrite(sql)) seen(sql, __knexUid)
        }
        knex.on('query', onQuery)
        return () => void knex.off('query', onQuery)
      },
      // Knex numbers its connections.
      markOf: (tx) => (connections.get(tx) as Partial<KnexQuery> | undefined)?.__knexUid,
    },
  }
}

/** What Knex tells its listeners of a query. */
interface KnexQuery {
  readonly __knexUid: string
  readonly sql: string
}

type KnexTransaction<Row extends NonNullable<unknown>, Result> = LibraryTransaction<
  Knex.Transaction<Row, Result>
>

async function begin<Row extends NonNullable<unknown>, Result>(
  knex: Knex<Row, Result>,
  connection: PoolClient,
): Promise<KnexTransaction<Row, Result>> {
  const tx = await knex.transaction({ connection })
  const { client } = tx as unknown as { readonly client: TransactionClient }
  const send = client.query
  // Knex would refuse a statement after the end itself, and the guard would not know of it.
  client.query = (on, query) =>
    tx.isCompleted() ? connection.query(query.sql) : send.call(client, on, query)
  return {
    tx: tx as Knex.Transaction<Row, Result>,
    end: (isCommitted) => {
      if (!tx.isCompleted()) void (isCommitted ? tx.commit() : tx.rollback())
    },
  }
}

/** What Knex sends the statements of a transaction through. */
interface TransactionClient {
  query(connection: unknown, query: { readonly sql: string }): Promise<unknown>
}

/** What is used of Knex's client for PostgreSQL. */
interface KnexClient {
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
