import type { EventId, Fingerprint, Json, OwnerToken } from './brands.ts'
import type { Logger } from './logger.ts'
import type { Runtime } from './runtime.ts'
import type { DeadLetterReason } from './settlement.ts'

/** A request to process one event. Each claim has a new `ownerToken`. Sending the same claim twice is harmless. */
export interface Claim {
  readonly id: EventId
  readonly fingerprint: Fingerprint
  readonly ownerToken: OwnerToken
  /** Milliseconds on the store's clock. */
  readonly leaseMs: number
  /** Attempts after which a claim answers `dead`. Undefined with an inbox, which counts the attempts itself. */
  readonly maxAttempts?: number | undefined
}

/** Times are *remaining milliseconds* on the store's clock, not instants. */
export type ClaimResult =
  | {
      readonly kind: 'acquired'
      readonly by: 'first' | 'takeover' | 'retry'
      readonly attempt: number
    }
  | { readonly kind: 'in-progress'; readonly remainingMs: number }
  | { readonly kind: 'not-due'; readonly remainingMs: number }
  | { readonly kind: 'duplicate'; readonly result?: Json | undefined }
  | { readonly kind: 'dead'; readonly reason: DeadLetterReason }
  | { readonly kind: 'conflict' }
  /** Nothing was claimed, and the store's entry cannot be used now. With an inbox, the inbox is asked instead. */
  | { readonly kind: 'unknown' }

export interface Held {
  readonly id: EventId
  readonly ownerToken: OwnerToken
}

export type HeldAnswer = 'held' | 'lost'

/** An event that is done, and whose run held no claim. */
export interface DoneMark {
  readonly id: EventId
  readonly fingerprint: Fingerprint
  readonly result?: Json | undefined
}

/** Remembers done events in one history of the inbox's database. Whatever is lost costs a look at the inbox. */
export type WriteMarks = (done: readonly DoneMark[], rememberMs: number) => Promise<unknown>

/** The registration that a guard sends to its lease store once, before the first claim. */
export interface LeaseRegistration {
  readonly consumer: string
  readonly leaseMs: number
  readonly dedupWindowMs: number
  /**
   * Identifies the history of the inbox's database ({@link InboxSession.identity}). Entries for done events are valid
   * only in that history. Undefined without an inbox: the lease store then decides alone.
   */
  readonly identity?: (() => Promise<string>) | undefined
  /** Whether the inbox has the effect of each event, in order. Undefined without an inbox. */
  readonly isDone?: ((ids: readonly EventId[]) => Promise<readonly boolean[]>) | undefined
  readonly logger: Logger
  readonly runtime: Runtime
}

/**
 * Stores the live claims. All methods take many events, answer in order and cost one round trip. If a batch contains a
 * key several times, the store handles its entries in the order of the batch.
 *
 * @throws {@link StoreUnavailableError} if the store does not answer within seconds: the guard waits for as long as a
 * method takes, and its events wait with it. The request may have been carried out.
 */
export interface LeaseSession {
  /**
   * Beside an inbox: given if only events that may be copies are to be claimed. The others are remembered with what it
   * answers, which must be asked for *before* their transactions begin: a commit that a later history does not have would
   * be remembered in it. Undefined: no history is known, and all events are claimed.
   */
  readonly marks?: (() => WriteMarks | undefined) | undefined
  claim(claims: readonly Claim[]): Promise<readonly ClaimResult[]>
  renew(held: readonly Held[], leaseMs: number): Promise<readonly HeldAnswer[]>
  /** Called only after the commit. `rememberMs`: how long the store must answer `duplicate`. */
  complete(
    done: readonly (Held & { readonly result?: Json | undefined })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]>
  fail(failed: readonly (Held & { readonly delayMs: number })[]): Promise<readonly HeldAnswer[]>
  release(held: readonly Held[]): Promise<readonly HeldAnswer[]>
  bury(
    dead: readonly (Held & { readonly reason: DeadLetterReason })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]>
}

/**
 * Operations on events of guards without an inbox. With an inbox, dead letters are in Postgres, and no lease blocks an
 * event that is replayed there.
 */
export interface LeaseOperators {
  /** Makes dead-lettered events due now, with all their attempts. Answers which events were dead-lettered. */
  replay(ids: readonly EventId[]): Promise<readonly boolean[]>
  /**
   * Deletes the entries of events in any state, so that their next delivery runs. Answers which events had an entry.
   */
  forget(ids: readonly EventId[]): Promise<readonly boolean[]>
}

/** A lease store that a user passes to any number of guards. */
export interface LeaseStore extends LeaseSession {
  /**
   * Opens the session of one guard. A store without this method treats all guards alike.
   *
   * @throws {@link ConfigurationError} if the store cannot do what this guard needs.
   * @throws {@link StoreUnavailableError} if the store is down. With an inbox it must not be thrown: the store is then
   * only a fast path, and may come back later.
   */
  open?(registration: LeaseRegistration): Promise<LeaseSession>
}

/**
 * Remembers about which events are done, for telemetry: it may take a new event for a done one, and then that event is lost.
 * Made by `approximateDedup` of `@onceward/redis`.
 */
export interface ApproximateDedup {
  /** As the guard uses it: a lease store that excludes nobody and forgets attempts with the process. */
  asLeases(): LeaseStore
}
