import { ConfigurationError } from '@onceward/core'
import { type KnownNames, shown } from '@onceward/core/adapter'
import type { InboxOptions } from './inbox/inbox.ts'
import type { Isolation } from './transaction/claim-sql.ts'

/** Options of `pgInbox` and `kyselyInbox`. */
export interface BusinessOptions extends InboxOptions {
  /**
   * Isolation level of the handler's transactions. The handler cannot change it, because the claim runs first.
   * @defaultValue `read committed`
   */
  readonly isolation?: Isolation | undefined
  /**
   * Longest wait for the answer to a COMMIT, ms. After it the outcome is unknown, and the guard reads it on another
   * connection. Synchronous standbys may need a longer wait.
   * @defaultValue 30000
   */
  readonly commitSilenceMs?: number | undefined
}

/** The names of {@link BusinessOptions}. */
export const BUSINESS_OPTIONS: KnownNames<BusinessOptions> = {
  ...{ schema: true, maxStoredBytes: true, isolation: true, commitSilenceMs: true },
}

/** {@link BusinessOptions} after defaults, as the drivers use them. */
export interface DriverSettings {
  readonly isolation: Isolation
  readonly commitSilenceMs: number
}

const ISOLATIONS: readonly string[] = [
  'read committed',
  'repeatable read',
  'serializable',
] satisfies readonly Isolation[]

export const DEFAULTS: DriverSettings = Object.freeze({
  isolation: 'read committed',
  commitSilenceMs: 30_000,
})

/** @throws {@link ConfigurationError} */
export function businessOptions(options: BusinessOptions): DriverSettings {
  const { isolation = DEFAULTS.isolation, commitSilenceMs = DEFAULTS.commitSilenceMs } = options
  if (!ISOLATIONS.includes(isolation)) {
    throw new ConfigurationError(
      `Expected \`isolation\` to be one of ${ISOLATIONS.join(', ')}, got \`${shown(String(isolation))}\`.`,
    )
  }
  if (!Number.isInteger(commitSilenceMs) || commitSilenceMs < 100 || commitSilenceMs > 3_600_000) {
    throw new ConfigurationError(
      `Expected \`commitSilenceMs\` to be an integer from 100 to 3600000, got \`${shown(String(commitSilenceMs))}\`. Units are milliseconds.`,
    )
  }
  return { isolation, commitSilenceMs }
}
