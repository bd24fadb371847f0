import type { EventId, Fingerprint, Json, OwnerToken } from './brands.ts'
import type { Logger } from './logger.ts'
import type { Runtime } from './runtime.ts'
import type { DeadLetterReason } from './settlement.ts'

/** A request to process one event. `ownerToken` is new for each claim; resending the same one is harmless. */
export interface Claim {
  readonly id: EventId
  readonly fingerprint: Fingerprint
  readonly ownerToken: OwnerToken
  /** Milliseconds on the store's clock. */
  readonly leaseMs: number
  /** Attempts after which a claim answers `dead`. Undefined beside an inbox, which has the truth. */
  readonly maxAttempts?: number | undefined
}

/** Times are *remaining milliseconds* on the store's clock, never instants. */
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
  /** Nothing was claimed, and what the store has says nothing now: beside an inbox, that is asked instead. */
  | { readonly kind: 'unknown' }

export interface Held {
  readonly id: EventId
  readonly ownerToken: OwnerToken
}

export type HeldAnswer = 'held' | 'lost'

/** What a guard tells its lease store once, before the first claim. */
export interface LeaseRegistration {
  readonly consumer: string
  readonly leaseMs: number
  readonly dedupWindowMs: number
  /**
   * Names the history of the inbox's database ({@link InboxSession.identity}): what a store remembers as done holds
   * in that history alone. Undefined without an inbox; the store is the truth then.
   */
  readonly identity?: (() => Promise<string>) | undefined
  readonly logger: Logger
  readonly runtime: Runtime
}

/**
 * Where live claims are. All methods take many, answer in order and cost one round trip. A key that is in a batch
 * several times is judged in the order of the batch.
 *
 * @throws {@link StoreUnavailableError} when the store does not answer; what was asked may have happened.
 */
export interface LeaseSession {
  claim(claims: readonly Claim[]): Promise<readonly ClaimResult[]>
  renew(held: readonly Held[], leaseMs: number): Promise<readonly HeldAnswer[]>
  /** After the commit, never before. `rememberMs`: how long the store must answer `duplicate`. */
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
 * What operators do to events of guards without an inbox. Beside an inbox dead letters are in Postgres, and no lease
 * hides an event that is replayed there.
 */
export interface LeaseOperators {
  /** Dead events run again, due now, with all their attempts. Answers which were dead. */
  replay(ids: readonly EventId[]): Promise<readonly boolean[]>
  /** Events are unknown again, whatever they were: the next delivery runs. Answers which were known. */
  forget(ids: readonly EventId[]): Promise<readonly boolean[]>
}

/** A store of leases that a user hands to any number of guards. */
export interface LeaseStore extends LeaseSession {
  /**
   * What one guard uses instead of the store itself; a store without it treats all guards alike.
   *
   * @throws {@link ConfigurationError} when the store cannot do what this guard needs.
   * @throws {@link StoreUnavailableError} to be tried again. Beside an inbox it must not throw that: there the
   * store is a fast path, and may come back later.
   */
  open?(registration: LeaseRegistration): Promise<LeaseSession>
}
