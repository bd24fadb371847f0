import type { GuardSettings } from '../model/guard-port.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'

/** The settings that adapters need, of options with defaults. */
export function settingsOf(options: ResolvedOptions): GuardSettings {
  return {
    consumer: options.consumer,
    concurrency: options.concurrency,
    leaseMs: options.leaseMs,
    deadlineMs: options.deadlineMs,
    dedupWindowMs: options.dedupWindowMs,
    maxAttempts: options.retry.attempts,
    retryMaxMs: options.retry.maxMs,
    transaction: options.transaction,
    hasInbox: options.inbox !== undefined,
    hasLeases: options.leases !== undefined,
    lanesAreUsers: options.orderingKeyChosen,
  }
}
