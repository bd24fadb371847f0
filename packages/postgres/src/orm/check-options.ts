import { ConfigurationError } from '@onceward/core'
import { type KnownNames, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { Pool, PoolConfig } from 'pg'
import { POOL } from '../client.ts'
import { poolConfig } from '../clients/pg-pool-config.ts'
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
export interface CheckedOptions {
  readonly settings: DriverSettings
  /** For the guard's own statements: the user's pool, or how to make one. */
  readonly own: { readonly pool: Pool } | { readonly config: PoolConfig }
}

/**
 * Checks the options of an ORM's inbox. This module does not need pg.
 *
 * @param place - The function that got them.
 * @throws {@link ConfigurationError}
 */
export function checkOptions(place: string, options: OrmInboxOptions): CheckedOptions {
  refuseUnknownNames(place, options, OWN_OPTIONS)
  const { connectionString, pool } = options
  if ((pool === undefined) === (connectionString === undefined)) {
    throw new ConfigurationError(
      `Expected ${place} to get either \`connectionString\` or \`pool\`, for the guard's own statements: write \`${place}(…, { connectionString })\` with the address of the database of the first argument.`,
    )
  }
  const settings = businessOptions(options)
  if (connectionString !== undefined) return { settings, own: { config: { connectionString } } }
  const config = poolConfig(pool)
  if (config !== undefined) return { settings, own: { config } }
  refuseUnfitClient(`\`pool\` of ${place}`, pool, POOL)
  return { settings, own: { pool: pool as Pool } }
}
