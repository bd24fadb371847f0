const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const DAY_MS = 24 * 60 * MINUTE_MS

export interface Defaults {
  readonly concurrency: number
  readonly dedupWindowMs: number
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly claimWaitMs: number
  readonly retry: { readonly attempts: number; readonly baseMs: number; readonly maxMs: number }
  readonly fingerprint: 'body'
  readonly onMissingKey: 'dead-letter'
  readonly onConflict: 'dead-letter'
  readonly transaction: 'each'
  readonly onStoreDown: 'wait'
}

/**
 * Every default of a guard, in its one home. Each one's unit, reason and source stand in `OPTION_DOCS`, from which
 * docs/configuration.md is rendered.
 */
export const DEFAULTS: Defaults = Object.freeze({
  concurrency: 8,
  dedupWindowMs: 15 * DAY_MS,
  leaseMs: 30 * SECOND_MS,
  deadlineMs: 60 * SECOND_MS,
  claimWaitMs: 250,
  retry: Object.freeze({ attempts: 5, baseMs: SECOND_MS, maxMs: 5 * MINUTE_MS }),
  fingerprint: 'body',
  onMissingKey: 'dead-letter',
  onConflict: 'dead-letter',
  transaction: 'each',
  onStoreDown: 'wait',
} as const satisfies Defaults)
