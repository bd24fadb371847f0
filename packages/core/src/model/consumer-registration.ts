import type { Logger } from './logger.ts'
import type { Runtime } from './runtime.ts'

/** The registration that a guard sends to its inbox once, before the first claim. */
export interface ConsumerRegistration {
  readonly consumer: string
  readonly dedupWindowMs: number
  /** Version of the fingerprint rule, 0 = none. If two guards of one consumer differ, a warning is logged. */
  readonly fingerprintRule: number
  /** Attempts before an event is dead-lettered. Runs without a verdict may be three times as many. */
  readonly maxAttempts: number
  /** Concurrent transactions that the guard wants, and whether its user set that number. */
  readonly concurrency: number
  readonly concurrencyChosen: boolean
  readonly logger: Logger
  readonly runtime: Runtime
}
