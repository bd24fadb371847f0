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
  /** @internal See {@link DriverSettings}. For tests: the declarations of the package leave it out. */
  readonly commitSilenceMs?: number | undefined
}

/** The names of {@link BusinessOptions}. */
export const BUSINESS_OPTIONS: KnownNames<BusinessOptions> = {
  ...{ schema: true, maxStoredBytes: true, isolation: true, commitSilenceMs: true },
}

/** {@link BusinessOptions} after defaults, as the drivers use them. */
export interface DriverSettings {
  readonly isolation: Isolation
  /**
   * Longest wait for the answer to a COMMIT. After it the outcome is unknown, and the guard reads it on another connection.
   * A COMMIT that waits for a standby which is gone may take longer: the event's row then decides, as after any lost answer.
   */
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
  return { isolation, commitSilenceMs }
}
