import { ConfigurationError, type Inbox } from '@onceward/core'
import { refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { ConsumerRegistration } from '@onceward/core/ports'
import type { Pool, PoolClient, PoolConfig } from 'pg'
import { POOL } from './client.ts'
import { openOwnPool } from './clients/pg-own-pool.ts'
import { poolConfig } from './clients/pg-pool-config.ts'
import type { Driver } from './driver/driver.ts'
import { withConnection } from './driver/inbox-connection.ts'
import { createInbox } from './inbox/inbox.ts'
import {
  BUSINESS_OPTIONS,
  type BusinessOptions,
  businessOptions,
  type DriverSettings,
} from './options.ts'
import { pgDriver } from './pg-driver.ts'

/** Options of {@link pgInbox}. */
export type PgInboxOptions = BusinessOptions

/**
 * The durable guard of a consumer on pg: handlers get a `PoolClient` of pg.
 *
 * @param pool - A pool, which may be shared with other guards and with other code. Each guard takes up to `concurrency`
 * connections, and two connections stay spare. Or what `new Pool()` takes, as `{ connectionString }`: the guard makes a
 * pool of its own, whose `max` is `concurrency` and two by default, and ends it when it closes. Its transactions need
 * fewer settings, so they are faster.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { pgInbox } from '@onceward/postgres/pg'
 *
 * // A pool of its own is faster; `pgInbox(pool)` shares yours.
 * const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
 * const audit = createGuard({ consumer: 'audit', inbox }, async ({ key }, { tx }) => {
 *   await tx.query('insert into audit_log (key) values ($1)', [key])
 * })
 * ```
 */
export function pgInbox(pool: Pool | PoolConfig, options: PgInboxOptions = {}): Inbox<PoolClient> {
  const config = poolConfig(pool)
  if (config === undefined) refuseUnfitClient('pgInbox', pool, POOL)
  else refuseOptionsIn(config)
  refuseUnknownNames('pgInbox', options, BUSINESS_OPTIONS)
  const settings = businessOptions(options)
  const inbox =
    config === undefined
      ? createInbox(({ runtime }) => pgDriver(pool as Pool, settings, runtime), options)
      : createInbox((registration) => ownDriver(config, settings, registration), options)
  return withConnection(inbox, { ...options, pool })
}

/** pg ignores names that it does not know, so an option in the wrong place would silently have its default value. */
function refuseOptionsIn(config: PoolConfig): void {
  const misplaced = Object.keys(BUSINESS_OPTIONS).filter((name) => Object.hasOwn(config, name))
  if (misplaced.length === 0) return
  const names = misplaced.map((name) => `\`${name}\``).join(', ')
  throw new ConfigurationError(
    `pgInbox takes ${names} in its second argument, not among the settings of the pool.`,
  )
}

/** The driver for pg on a pool that only this guard uses. */
function ownDriver(
  config: PoolConfig,
  settings: DriverSettings,
  registration: ConsumerRegistration,
): Driver<PoolClient> {
  const pool = openOwnPool(config, registration)
  const driver = pgDriver(pool, { ...settings, ownsSessions: true }, registration.runtime)
  return { ...driver, close: () => pool.end() }
}
