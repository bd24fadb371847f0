import { ConfigurationError, type Inbox } from '@onceward/core'
import { refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { Kysely, Transaction } from 'kysely'
import { toTransaction } from './clients/kysely-transaction.ts'
import { createInbox } from './inbox/inbox.ts'
import { kyselyDriver } from './kysely-driver.ts'
import { BUSINESS_OPTIONS, type BusinessOptions, businessOptions } from './options.ts'

/** Options of {@link kyselyInbox}. */
export interface KyselyInboxOptions extends BusinessOptions {
  /**
   * Connections of the pool below Kysely, because Kysely does not expose them. With this number, guards that share the
   * pool leave two connections spare, and a `concurrency` that does not fit the pool is refused at start.
   */
  readonly poolSize?: number | undefined
}

/**
 * The durable guard of a consumer on Kysely: handlers get the user's `Transaction<DB>`, plugins included.
 *
 * @param db - Any dialect of PostgreSQL: pg, PGlite, … With pg, a connection that is lost while a handler is between
 * two statements fails that run. Kysely alone would let it end the process.
 * @throws {@link ConfigurationError} also for a transaction, whose type is that of a Kysely too.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { kyselyInbox } from '@onceward/postgres/kysely'
 *
 * const billing = createGuard(
 *   { consumer: 'billing', inbox: kyselyInbox(db, { poolSize: 10 }), schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx.insertInto('charges').values({ order_id: orderId, cents }).execute()
 *   },
 * )
 * ```
 */
export function kyselyInbox<DB>(
  db: Kysely<DB>,
  options: KyselyInboxOptions = {},
): Inbox<Transaction<DB>> {
  refuseUnfitClient('kyselyInbox', db, {
    expected: 'a Kysely instance',
    methods: ['getExecutor', 'selectFrom'],
  })
  if (db.isTransaction) {
    throw new ConfigurationError(
      'Expected kyselyInbox to get a Kysely instance, got one of its transactions: the guard would commit it. Give the instance that the transaction was begun on.',
    )
  }
  refuseUnknownNames('kyselyInbox', options, { ...BUSINESS_OPTIONS, poolSize: true })
  const { poolSize } = options
  if (poolSize !== undefined && (!Number.isInteger(poolSize) || poolSize < 1)) {
    throw new ConfigurationError(
      `Expected \`poolSize\` to be a positive integer, got \`${String(poolSize)}\`.`,
    )
  }
  const settings = { ...businessOptions(options), poolSize }
  return createInbox(
    ({ runtime }) => kyselyDriver({ db, toTransaction, runtime }, settings),
    options,
  )
}
