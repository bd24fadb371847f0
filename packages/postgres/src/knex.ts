import { ConfigurationError, type Inbox } from '@onceward/core'
import { refuseUnfitClient } from '@onceward/core/adapter'
import type { Knex } from 'knex'
import { knexLibrary } from './orm/knex-library.ts'
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
  const { client } = knex as { readonly client: { readonly driverName?: unknown } }
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
  return pgLibraryInbox('knexInbox', knexLibrary(knex), options)
}
