import { refuseUnknownNames } from '@onceward/core/adapter'
import { inTransaction, type PoolLike, refuseNoPool } from '../client.ts'
import { quotedSchema } from '../statements/schema-name.ts'

/** Options of {@link forgetHistory}. */
export interface ForgetHistoryOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
}

/**
 * Makes Redis forget which events are done. Call it after every restore of data, before consumers start again.
 *
 * Redis answers "duplicate" for up to twice `rememberDoneMs` without asking PostgreSQL. If a restore has removed the row
 * of such an event, its redelivery would be acked without an effect. Nothing is lost by calling it too often: until
 * Redis knows the events again, PostgreSQL is asked. Guards that are running notice within five seconds. In SQL:
 * `select onceward.forget_history()`.
 *
 * @param pool - pg's `Pool`, or anything with its `connect()`.
 * @throws {@link StoreUnavailableError} when the server cannot be reached; nothing was changed.
 */
export async function forgetHistory(
  pool: PoolLike,
  options: ForgetHistoryOptions = {},
): Promise<void> {
  refuseNoPool('forgetHistory', pool)
  refuseUnknownNames('forgetHistory', options, { schema: true })
  const schema = quotedSchema(options.schema)
  await inTransaction(pool, (client) => client.query(`select ${schema}.forget_history()`))
}
