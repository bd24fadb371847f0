import type { EventId, EventKey, Fingerprint, Json, OwnerToken } from './brands.ts'
import type { Delivery } from './delivery.ts'
import type { OncewardError } from './errors.ts'
import type { Logger } from './logger.ts'
import type { Runtime } from './runtime.ts'
import type { DeadLetterReason } from './settlement.ts'

/** An event after step 1: what all stores key by and compare. */
export interface IdentifiedEvent {
  readonly id: EventId
  readonly key: EventKey
  readonly tenant?: string | undefined
  readonly fingerprint: Fingerprint
  readonly delivery: Delivery
}

/** An event whose attempt was recorded before its run: state `r`, fenced by the token. */
export interface CountedEvent {
  readonly event: IdentifiedEvent
  readonly token: OwnerToken
  readonly attempt: number
}

/** What a guard tells its inbox once, before the first claim. */
export interface ConsumerRegistration {
  readonly consumer: string
  readonly dedupWindowMs: number
  /** Version of the fingerprint rule, 0 = none. Two guards of one consumer that disagree are told. */
  readonly fingerprintRule: number
  /** Attempts before an event is buried. Runs that gave no verdict may be three times as many. */
  readonly maxAttempts: number
  /** Transactions the guard wants side by side, and whether its user asked for that number. */
  readonly concurrency: number
  readonly concurrencyChosen: boolean
  readonly logger: Logger
  readonly runtime: Runtime
}

/** The durable guard of a consumer, made by `pgInbox`, `kyselyInbox` or `memoryInbox`. */
export interface Inbox<Tx> {
  /**
   * Registers the consumer and checks that the tables fit this code.
   *
   * Another guard of the consumer with another fingerprint rule or window is told by a warning: rules change while
   * a deployment rolls, and fingerprints of different rules never conflict.
   *
   * @throws {@link ConfigurationError} tables missing or too new, pool too small.
   * @throws {@link StoreUnavailableError} to be tried again.
   */
  open(registration: ConsumerRegistration): Promise<InboxSession<Tx>>
}

/** Its effect is committed. */
export interface DoneEvent {
  readonly kind: 'done'
  readonly fingerprint: Fingerprint
  readonly result?: Json | undefined
}

/** What is stored of an event. Ages and waits are milliseconds on the store's clock. */
export type Known =
  | { readonly kind: 'absent' }
  | DoneEvent
  | {
      readonly kind: 'dead'
      readonly fingerprint: Fingerprint
      readonly reason: DeadLetterReason
      readonly attempt: number
      readonly published: boolean
    }
  | {
      readonly kind: 'waiting'
      readonly fingerprint: Fingerprint
      readonly remainingMs: number
      readonly attempt: number
      /** A replayed event runs alone. */
      readonly alone: boolean
    }
  | {
      /** State `r`: begun, no verdict yet. */
      readonly kind: 'running'
      readonly fingerprint: Fingerprint
      readonly attempt: number
      readonly ageMs: number
    }

export type BeginClaim =
  | { readonly kind: 'fresh'; readonly events: readonly IdentifiedEvent[] }
  | { readonly kind: 'counted'; readonly events: readonly CountedEvent[] }
  /** No claim: `onMissingKey: 'unguarded'`. */
  | { readonly kind: 'none' }

export interface BeginRequest {
  readonly claim: BeginClaim
  /** Longest wait for one row held by another transaction, ms. */
  readonly waitMs: number
  /** What is left of the deadline, ms: no statement and no silence may last longer. */
  readonly budgetMs: number
}

export type Begun<Tx> =
  | {
      readonly kind: 'open'
      readonly transaction: InboxTransaction<Tx>
      /** The events whose row this transaction holds now, at least one unless none was asked for. */
      readonly claimed: ReadonlySet<EventId>
    }
  /** No event could be claimed; nothing is open. `done`: in their order those that are done, where the store looked. */
  | { readonly kind: 'none'; readonly done?: readonly (DoneEvent | undefined)[] | undefined }
  /** A row stayed held by another transaction for `waitMs`; nothing is open. */
  | { readonly kind: 'held' }

/**
 * How the transaction looks on the wire: `failed` after a statement failed (25P02 follows), `ended` when a
 * handler ended it itself, `broken` when the connection is gone.
 */
export type TransactionStatus = 'open' | 'failed' | 'ended' | 'broken'

export type CommitAnswer =
  | { readonly kind: 'committed' }
  /** The server answered that nothing is committed. */
  | { readonly kind: 'rolled-back'; readonly error: unknown }
  /** The connection ended after COMMIT was sent. */
  | { readonly kind: 'unknown'; readonly error: OncewardError }
  /** Committed here but not replicated as demanded (warning 01000). */
  | { readonly kind: 'not-replicated'; readonly error: OncewardError }

export interface Commit {
  /** JSON texts to store, by event. */
  readonly results: ReadonlyMap<EventId, string>
  /** Events that had trouble before: their `failed_events` rows go in this transaction. */
  readonly recovered: readonly EventId[]
}

/** One open business transaction. After commit, rollback or revoke, `tx` refuses. */
export interface InboxTransaction<Tx> {
  /** The user's own handle. */
  readonly tx: Tx
  /** As of the last answer of the server. */
  status(): TransactionStatus
  /** From now on the handle refuses with `error`; a running statement is cancelled. */
  revoke(error: OncewardError): void
  commit(commit: Commit): Promise<CommitAnswer>
  /** Never throws: a connection that cannot roll back is destroyed. */
  rollback(): Promise<void>
  /** Rolls back and records the failures in one flush. As {@link InboxSession.fail}. */
  rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]>
  /**
   * A handler ended this transaction itself: deletes the rows that *it* committed (same `xmin`) for events
   * that did not run.
   */
  retract(events: readonly IdentifiedEvent[]): Promise<void>
}

export type CountAnswer =
  | {
      readonly kind: 'counted'
      readonly token: OwnerToken
      readonly attempt: number
    }
  /** A live owner holds the row, or it was counted less than five seconds ago. */
  | { readonly kind: 'held' }
  /** The state is another one by now: classify again. */
  | { readonly kind: 'changed' }
  /** Attempts (or runs without verdict) were spent; it is dead now, unpublished. */
  | {
      readonly kind: 'buried'
      readonly reason: DeadLetterReason
      readonly attempt: number
    }

interface Verdict {
  readonly event: IdentifiedEvent
  /** Of the count; undefined after a clean run, which left no row. */
  readonly token?: OwnerToken | undefined
  readonly attempt: number
  readonly error: unknown
}
export interface Failure extends Verdict {
  /** Milliseconds until the next attempt is due. */
  readonly delayMs: number
}
export interface Burial extends Verdict {
  readonly reason: DeadLetterReason
}
export interface Release {
  readonly event: IdentifiedEvent
  readonly token: OwnerToken
  /** `given-back`: attempt − 1, due now. `no-verdict`: the same, and counted apart. */
  readonly as: 'given-back' | 'no-verdict'
}
/** `lost`: the row is not this owner's any more; nothing changed. */
export type VerdictAnswer = 'recorded' | 'lost'

/** A message that never touches the state of the event whose key it bears. */
export interface Refusal {
  readonly delivery: Delivery
  readonly reason: DeadLetterReason
  readonly error: unknown
  readonly key?: string | undefined
}

/** Names a dead letter: a buried event or a refused message. */
export type DeadLetterRef =
  | { readonly kind: 'event'; readonly id: EventId }
  | { readonly kind: 'refused'; readonly id: string }

/** What is published to a dead-letter place. */
export interface DeadLetter {
  readonly ref: DeadLetterRef
  readonly consumer: string
  readonly key?: string | undefined
  readonly reason: DeadLetterReason
  readonly error?: string | undefined
  readonly attempts: number
  readonly firstFailedAt: Date
  readonly lastFailedAt: Date
  readonly delivery: Delivery
}

/** Hands a dead letter to the broker; resolves once the broker confirmed it. */
export type Publish = (letter: DeadLetter) => Promise<void>

/** `held`: another process is publishing it right now. `gone`: it is no dead letter any more. */
export type PublishAnswer = 'published' | 'already' | 'held' | 'gone'

/** A stored delivery that the guard's own poller runs or publishes. */
export interface DueEvent {
  readonly ref: DeadLetterRef
  readonly what: 'run' | 'publish'
  readonly delivery: Delivery
  /** The stored identity; undefined for refused messages, which are identified anew. */
  readonly identity?: Omit<IdentifiedEvent, 'delivery'> | undefined
}

export interface SweepStep {
  readonly deleted: number
  /** Whether the walk through the table is complete. */
  readonly finished: boolean
}

/** One guard's use of an inbox. All methods but the transaction's are own short transactions. */
export interface InboxSession<Tx> {
  /** What the pool can carry, at most what was asked for. */
  readonly concurrency: number
  /** For hashed keys in logs and metrics; the same in all processes. */
  readonly secret: Uint8Array
  /**
   * Names the tables and the history that commits are part of. Another one after a failover, a restore or a crash,
   * because what was committed before may be gone then.
   */
  identity(): Promise<string>
  /** @throws {@link StoreUnavailableError} nothing is open then, and nothing stays claimed. */
  begin(request: BeginRequest): Promise<Begun<Tx>>
  /** Reads what is stored, one statement, in order. */
  classify(events: readonly IdentifiedEvent[]): Promise<readonly Known[]>
  /**
   * Records attempt 1 (state `r`) for those without a row; undefined for the others. One statement.
   *
   * @param waitMs - Longest wait for rows held by others, all together.
   */
  suspect(
    events: readonly IdentifiedEvent[],
    waitMs: number,
  ): Promise<
    | {
        readonly kind: 'answered'
        readonly counted: readonly (CountedEvent | undefined)[]
      }
    | { readonly kind: 'held' }
  >
  /**
   * Counts one more attempt of events whose run starts now. `together`: of events that are due (`w`) and not to be
   * run alone; `alone`: also of replayed ones and of those that ended without a verdict (`r`, not young).
   */
  count(
    events: readonly IdentifiedEvent[],
    run: 'together' | 'alone',
  ): Promise<readonly CountAnswer[]>
  fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]>
  bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]>
  release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]>
  refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]>
  /** Publishes under the row's lock and marks it published in the same transaction. */
  publish(ref: DeadLetterRef, publish: Publish, budgetMs: number): Promise<PublishAnswer>
  /** Parked events that are due, and dead parked ones to publish; rows held by others are left out. */
  due(limit: number): Promise<readonly DueEvent[]>
  /** A replayed refused message was dealt with: forget it. */
  resolveRefused(id: string): Promise<void>
  /** Deletes some done rows older than the window. `undefined`: another process sweeps. */
  sweep(): Promise<SweepStep | undefined>
  /**
   * What an error that came out of a statement means: `serialization` (40001, 40P01), `store` (connection,
   * resources, shutdown: says nothing about the event), `other`.
   */
  diagnose(error: unknown): 'serialization' | 'store' | 'other'
}
