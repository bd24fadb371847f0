import type { Logger } from '@onceward/core'
import type { BeginRequest, Begun, PoolUse, Runtime } from '@onceward/core/ports'
import type { Statements } from '../statements/index.ts'

/** Rows as the driver returns them. Statements cast columns to `text`, because users may install other type parsers. */
export interface QueryAnswer {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly rowCount: number
}

export interface Connection {
  query(text: string, values?: readonly unknown[]): Promise<QueryAnswer>
}

/**
 * The part of the inbox that depends on the client library. `pg.ts` and `kysely.ts` are the two drivers. Everything
 * else in this package is written once, on top of a driver.
 *
 * All errors are typed and have the server's error as their cause: `sqlState()` of errors.ts finds its code.
 */
export interface Driver<Tx> extends Connection {
  /** One statement in its own transaction (READ COMMITTED), on a spare connection; repeated like `shortTransaction`. */
  query(text: string, values?: readonly unknown[]): Promise<QueryAnswer>
  /**
   * As `query`, but durable even if `synchronous_commit` is off: for records after which a delivery is settled for
   * good.
   */
  durable(text: string, values?: readonly unknown[]): Promise<QueryAnswer>
  /**
   * BEGIN, `work`, COMMIT on a spare connection (READ COMMITTED, durable); rolls back and rethrows when `work` throws.
   * `work` runs again when the transaction lost against a concurrent one.
   */
  shortTransaction<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result>
  /** The business transaction with its claim. */
  begin(request: BeginRequest, context: BeginContext): Promise<Begun<Tx>>
  diagnose(error: unknown): 'serialization' | 'store' | 'other'
  /** Whether the client gives the rows of the last of several statements in one text. */
  readonly sendsAtOnce: boolean
  /** Connections of the pool. Undefined if its limit is not known. */
  readonly poolSize: number | undefined
  /** The connections in use now. Left out: the client does not report it. */
  poolUse?(): PoolUse
  /** Ends the connections of a pool that the driver has made itself. */
  close?(): Promise<void>
}

export interface BeginContext {
  readonly statements: Statements
  /** Of `onceward.consumers`. */
  readonly consumerId: number
  readonly runtime: Runtime
  readonly logger: Logger
}
