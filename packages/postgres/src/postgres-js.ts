import type { Inbox } from '@onceward/core'
import { refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { Sql, TransactionSql } from 'postgres'
import { createInbox } from './inbox/inbox.ts'
import { BUSINESS_OPTIONS, type BusinessOptions, businessOptions } from './options.ts'
import { ormDriver } from './orm/orm-driver.ts'
import { beginPostgresJs, postgresJsStatements } from './orm/postgres-js-client.ts'

/** Options of {@link postgresJsInbox}. */
export type PostgresJsInboxOptions = BusinessOptions

/**
 * The durable guard of a consumer on postgres.js: handlers get the user's own `TransactionSql`. pg is not needed.
 *
 * @param sql - What `postgres()` answers, which may be shared with other guards and with other code. Each guard takes up to
 * `concurrency` connections, and two connections stay spare. What a handler writes with `sql` itself is outside of the
 * transaction: repositories must write with the `tx` that they are given.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { postgresJsInbox } from '@onceward/postgres/postgres-js'
 * import postgres from 'postgres'
 *
 * const sql = postgres(process.env.DATABASE_URL ?? '', { max: 10 })
 * const billing = createGuard(
 *   { consumer: 'billing', inbox: postgresJsInbox(sql), schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx`insert into charges (order_id, cents) values (${orderId}, ${cents})`
 *   },
 * )
 * ```
 */
export function postgresJsInbox<Types extends Record<string, unknown>>(
  sql: Sql<Types>,
  options: PostgresJsInboxOptions = {},
): Inbox<TransactionSql<Types>> {
  refuseUnfitClient('postgresJsInbox', sql, {
    expected: 'what `postgres()` of postgres.js answers',
    methods: ['begin', 'unsafe', 'reserve'],
    field: 'options',
  })
  refuseUnknownNames('postgresJsInbox', options, BUSINESS_OPTIONS)
  const settings = businessOptions(options)
  const client = sql as unknown as Sql
  return createInbox(({ runtime }) => {
    return ormDriver<TransactionSql>({
      client: {
        ...{ takesSeveral: true, pipelines: true },
        begin: (request) => beginPostgresJs(client, request),
      },
      ...{ pool: client, poolSize: client.options.max, settings, runtime },
      own: postgresJsStatements(client, runtime),
    })
  }, options) as Inbox<TransactionSql<Types>>
}
