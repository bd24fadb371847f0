import type { ConsumerRegistration } from '@onceward/core/ports'
import type { Pool } from 'pg'
import { openOwnPool } from '../clients/pg-own-pool.ts'
import { SPARE_CONNECTIONS } from '../driver/pool-slots.ts'
import type { DriverSettings } from '../options.ts'
import { type CheckedOptions, checkOptions, type OrmInboxOptions } from './check-options.ts'

export type { OrmInboxOptions } from './check-options.ts'

/** Options of an ORM's inbox after their check. */
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
 * @throws {@link ConfigurationError}
 */
export function ormOptions(place: string, options: OrmInboxOptions): OrmSettings {
  return toSettings(checkOptions(place, options))
}

export function toSettings({ own, settings }: CheckedOptions): OrmSettings {
  return {
    settings,
    openPool: (registration) => {
      if ('pool' in own) return { pool: own.pool, close: () => Promise.resolve() }
      const pool = openOwnPool({ max: SPARE_CONNECTIONS + 1, ...own.config }, registration)
      return { pool, close: () => pool.end() }
    },
  }
}
