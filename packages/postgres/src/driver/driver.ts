import type { BeginRequest, Begun, Runtime } from '@onceward/core'
import type { Statements } from '../statements/index.ts'

/** Rows come as the driver gives them; statements cast to `text` what users may have given other type parsers. */
export interface QueryAnswer {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly rowCount: number
}

export interface Connection {
  query(text: string, values?: readonly unknown[]): Promise<QueryAnswer>
}

/**
 * What one client library does for the inbox. `pg.ts` and `kysely.ts` are the two drivers; everything
 * else in this package is written once, on top of it.
 *
 * All errors come typed, with the server's own as their cause: `sqlState()` of errors.ts finds its code.
 */
export interface Driver<Tx> extends Connection {
  /** One statement in its own transaction, on a spare connection. */
  query(text: string, values?: readonly unknown[]): Promise<QueryAnswer>
  /**
   * As `query`, and on disk when it answers, whatever `synchronous_commit` says: for records after which a delivery
   * is settled for good.
   */
  durable(text: string, values?: readonly unknown[]): Promise<QueryAnswer>
  /** BEGIN, `work`, COMMIT on a spare connection (READ COMMITTED, durable); rolls back and rethrows when `work` throws. */
  shortTransaction<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result>
  /** The business transaction with its claim. */
  begin(request: BeginRequest, context: BeginContext): Promise<Begun<Tx>>
  diagnose(error: unknown): 'serialization' | 'store' | 'other'
  /** Connections of the pool, when it has a limit that can be known. */
  readonly poolSize: number | undefined
}

export interface BeginContext {
  readonly statements: Statements
  /** Of `onceward.consumers`. */
  readonly consumerId: number
  readonly runtime: Runtime
}
