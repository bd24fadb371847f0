import type { Inbox } from '../model/inbox.ts'
import type { LeaseStore } from '../model/lease-store.ts'
import type { Logger } from '../model/logger.ts'
import type { Runtime } from '../model/runtime.ts'
import type { CommonOptions, LeaseGuardOptions, Resolver } from './options.ts'

type Common = CommonOptions<unknown, unknown>

/** What the engine works with: validated, with all defaults; the types of the user's payload are forgotten. */
export interface ResolvedOptions
  extends Pick<
    Common,
    'consumer' | 'decode' | 'skip' | 'schema' | 'tenant' | 'isFatal' | 'onDuplicate' | 'observe'
  > {
  readonly inbox: Inbox<unknown> | undefined
  readonly leases: LeaseStore | undefined
  readonly eventKey: readonly Resolver[]
  readonly orderingKey: Resolver
  /** Whether the user gave one, or lanes are the broker's. */
  readonly orderingKeyChosen: boolean
  readonly fingerprint: FingerprintRule
  /** Its version, as it is registered and stored; 0 = none. */
  readonly fingerprintRule: number
  readonly transaction: 'each' | 'batch'
  readonly concurrency: number
  /** Whether the user asked for that concurrency, or it is the default. */
  readonly concurrencyChosen: boolean
  readonly dedupWindowMs: number
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly claimWaitMs: number
  readonly retry: { readonly attempts: number; readonly baseMs: number; readonly maxMs: number }
  readonly onMissingKey: 'dead-letter' | 'position' | 'unguarded'
  readonly onConflict: 'dead-letter' | 'ack' | 'throw'
  readonly onTakeover: LeaseGuardOptions<unknown>['onTakeover'] | undefined
  readonly onStoreDown: 'wait' | 'unguarded'
  readonly logger: Logger
  readonly runtime: Runtime
}

/** The option `fingerprint`. */
export type FingerprintRule = 'body' | 'none' | ((payload: unknown) => unknown)
