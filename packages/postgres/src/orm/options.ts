import { ConfigurationError } from '@onceward/core'
import { type KnownNames, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { ConsumerRegistration } from '@onceward/core/ports'
import type { Pool, PoolConfig } from 'pg'
import { POOL } from '../client.ts'
import { openOwnPool, poolConfig } from '../clients/pg-own-pool.ts'
import { SPARE_CONNECTIONS } from '../driver/pool-slots.ts'
import {
  BUSINESS_OPTIONS,
  type BusinessOptions,
  businessOptions,
  type DriverSettings,
} from '../options.ts'

/**
 * Options of an inbox whose transactions are those of an ORM. Attempts, verdicts and dead letters are stored over a pool of
 * pg of their own, so that they never wait for a connection that a handler holds. One of the two must be given.
 */
export interface OrmInboxOptions extends BusinessOptions {
  /** The guard makes a pool of three connections of its own, and ends it when it closes. */
  readonly connectionString?: string | undefined
  /**
   * A pool of pg to use instead, which may be shared, or what `new Pool()` takes: the guard then makes the pool and ends
   * it. The pool connects to the database of the ORM.
   */
  readonly pool?: Pool | PoolConfig | undefined
}

const OWN_OPTIONS: KnownNames<OrmInboxOptions> = {
  ...BUSINESS_OPTIONS,
  ...{ connectionString: true, pool: true },
}

/** {@link OrmInboxOptions} after their check. */
export interface OrmSettings {
  readonly settings: DriverSettings
  /** The pool for the guard's own statements. */
  readonly openPool: (registration: ConsumerRegistration) => OwnPool
}

export interface OwnPool {
  readonly pool: Pool
  /** Ends the pool if the guard has made it. */
  readonly close: () => Promise<void>
}

/**
 * Checks the options of an ORM's inbox.
 *
 * @param place - The function that got them.
 * @param more - Names of the options that only this ORM has.
 * @throws {@link ConfigurationError}
 */
export function ormOptions(
  place: string,
  options: OrmInboxOptions,
  more: Readonly<Record<string, true>> = {},
): OrmSettings {
  refuseUnknownNames(place, options, { ...OWN_OPTIONS, ...more })
  const { connectionString, pool } = options
  if ((pool === undefined) === (connectionString === undefined)) {
    throw new ConfigurationError(
      `Expected ${place} to get either \`connectionString\` or \`pool\`, for the guard's own statements: write \`${place}(…, { connectionString })\` with the address of the database of the first argument.`,
    )
  }
  const config = pool === undefined ? { connectionString } : poolConfig(pool)
  if (config === undefined) refuseUnfitClient(`\`pool\` of ${place}`, pool, POOL)
  const settings = businessOptions(options)
  return {
    settings,
    openPool: (registration) =>
      config === undefined
        ? { pool: pool as Pool, close: () => Promise.resolve() }
        : opened({ max: SPARE_CONNECTIONS + 1, ...config } as PoolConfig, registration),
  }
}

function opened(config: PoolConfig, registration: ConsumerRegistration): OwnPool {
  const pool = openOwnPool(config, registration)
  return { pool, close: () => pool.end() }
}
