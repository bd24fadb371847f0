import type { EpochMs } from './brands.ts'
import type { Delivery } from './delivery.ts'
import { ConfigurationError } from './errors.ts'
import type { Publish } from './inbox.ts'
import type { Logger } from './logger.ts'
import type { Runtime } from './runtime.ts'
import type { Settlement } from './settlement.ts'

/** What a user holds of a guard. */
export interface Guard {
  readonly consumer: string
  process(delivery: Delivery): Promise<Settlement>
  processBatch(deliveries: readonly Delivery[]): Promise<readonly Settlement[]>
  /** No new claims; running handlers end (bounded by `deadlineMs`); then no timers are left. The user's clients stay open. */
  close(): Promise<void>
}

/** The guard's settings after defaults, as adapters need them. */
export interface GuardSettings {
  readonly consumer: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly dedupWindowMs: number
  readonly maxAttempts: number
  readonly retryMaxMs: number
  readonly transaction: 'each' | 'batch'
  readonly hasInbox: boolean
  readonly hasLeases: boolean
  /** Lanes come from the `orderingKey` option: an adapter cannot tell which deliveries share one. */
  readonly lanesAreUsers: boolean
}

export interface RunHooks {
  /** Called once per delivery as soon as its settlement is known, in any order. */
  readonly onSettlement?: ((index: number, settlement: Settlement) => void) | undefined
  /** Aborted: nothing more is started; what did not start answers `abandon: closing`. */
  readonly stop?: AbortSignal | undefined
  /** Aborted: the signals of running handlers abort too. */
  readonly abort?: AbortSignal | undefined
}

export type Availability =
  | { readonly kind: 'available' }
  | {
      readonly kind: 'down'
      readonly retryAt: EpochMs
      readonly error: unknown
    }

/**
 * What adapters use of a guard beyond {@link Guard}; not for users.
 *
 * The order is fixed: `run` has stored everything before it answers; the adapter then settles with the broker.
 */
export interface GuardPort {
  readonly settings: GuardSettings
  readonly runtime: Runtime
  readonly logger: Logger
  /**
   * Opens the stores now rather than at the first delivery, so that start-up errors come at start.
   *
   * @throws {@link ConfigurationError} | {@link StoreUnavailableError}
   */
  open(): Promise<void>
  /** Never rejects: every failure is a settlement. Same order as the deliveries. */
  run(deliveries: readonly Delivery[], hooks?: RunHooks): Promise<readonly Settlement[]>
  /**
   * Publishes the dead letter that a `dead-letter` settlement of {@link run} names, at most once among all
   * processes that hold it. `recorded`: there is nothing to publish to settle the delivery with, its record is
   * enough. `retry`: not now; the delivery must come back.
   */
  publishDeadLetter(
    settlement: Settlement,
    publish: Publish,
  ): Promise<
    | { readonly kind: 'published' | 'already' }
    | { readonly kind: 'retry'; readonly error?: unknown }
  >
  /** The guard's poller publishes parked dead letters from this source; the answer unregisters. */
  registerPublisher(
    source: { readonly broker: string; readonly queue: string },
    publish: Publish,
  ): () => void
  /** Whether it makes sense to fetch deliveries now. */
  availability(): Availability
}

const PORT = Symbol.for('onceward.guard-port')

export function attachPort(guard: Guard, port: GuardPort): void {
  Object.defineProperty(guard, PORT, { value: port })
}

/** @throws {@link ConfigurationError} when `guard` was not made by `createGuard` or `createBatchGuard`. */
export function portOf(guard: Guard): GuardPort {
  const port: unknown = Reflect.get(guard, PORT)
  if (port === undefined) {
    throw new ConfigurationError('Expected a guard made by createGuard() or createBatchGuard().')
  }
  return port as GuardPort
}
