import type { EventId, EventKey, Fingerprint, Json, OwnerToken } from './brands.ts'
import type { DeadLetterRef, PublishingEnd, PublishingRight } from './dead-letter.ts'
import type { Delivery } from './delivery.ts'
import type { DeadlineExceededError, OncewardError } from './errors.ts'
import type { FenceMove, OffsetStore } from './fence.ts'
import type { Pause } from './guard-port.ts'
import type { InboxFigures, PoolUse } from './guard-reading.ts'
import type { Logger } from './logger.ts'
import type { CollectedMessage } from './outbox.ts'
import type { Runtime } from './runtime.ts'
import type { DeadLetterReason } from './settlement.ts'

/** An event whose effect is committed. */
export interface DoneEvent {
  readonly kind: 'done'
  readonly fingerprint: Fingerprint
  readonly result?: Json | undefined
  /** How long ago the effect was committed. Undefined if the store does not say. */
  readonly ageMs?: number | undefined
}

/** The stored state of an event. Ages and waits are milliseconds on the store's clock. */
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
      /** State `r`: started, no verdict yet. */
      readonly kind: 'running'
      readonly fingerprint: Fingerprint
      readonly attempt: number
      /** Negative if the clock of the store was set back since. */
      readonly ageMs: number
    }

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

/** An event after step 1, with the values that all stores use as key and compare. */
export interface IdentifiedEvent {
  readonly id: EventId
  readonly key: EventKey
  readonly tenant?: string | undefined
  readonly fingerprint: Fingerprint
  readonly delivery: Delivery
  /** Given if the type of the event has its own number, in place of that of the registration. */
  readonly maxAttempts?: number | undefined
}

/** An event whose attempt was recorded before its run: state `r`, fenced by the token. */
export interface CountedEvent {
  readonly event: IdentifiedEvent
  readonly token: OwnerToken
  readonly attempt: number
}

/** The durable guard of a consumer: `pgInbox`, that of an ORM or of another store, or `memoryInbox`. */
export interface Inbox<Tx> {
  /**
   * Registers the consumer and checks that the tables fit this code.
   *
   * If another guard of the consumer has another fingerprint rule or window, a warning is logged. Rules change during a
   * rolling deployment, and fingerprints of different rules never conflict.
   *
   * @throws {@link ConfigurationError} if tables are missing or too new, or the pool is too small.
   * @throws {@link StoreUnavailableError} if the store is down. The guard tries again.
   */
  open(registration: ConsumerRegistration): Promise<InboxSession<Tx>>
}

export type BeginClaim =
  | { readonly kind: 'fresh'; readonly events: readonly IdentifiedEvent[] }
  | { readonly kind: 'counted'; readonly events: readonly CountedEvent[] }
  /** No claim: `onMissingKey: 'unguarded'`. */
  | { readonly kind: 'none' }
  /** Records of one partition, whose place is their identity. Claimed if the move changes the stored state. */
  | { readonly kind: 'move'; readonly move: FenceMove; readonly events: readonly IdentifiedEvent[] }

export interface BeginRequest {
  readonly claim: BeginClaim
  /** Maximum wait for one row that another transaction holds, ms. */
  readonly waitMs: number
  /** Time left until the deadline, ms. No statement and no idle time in the transaction may last longer. */
  readonly budgetMs: number
  /** This process has seen the events done, so a store may read them first, and claim only what is not there. */
  readonly likelyDone?: boolean | undefined
}

export type Begun<Tx> =
  | {
      readonly kind: 'open'
      readonly transaction: InboxTransaction<Tx>
      /** The events whose rows this transaction holds now. At least one, unless none was requested. */
      readonly claimed: ReadonlySet<EventId>
    }
  /** No event could be claimed, and nothing is open. `done` lists the done events in order, if the store looked. */
  | { readonly kind: 'none'; readonly done?: readonly (DoneEvent | undefined)[] | undefined }
  /** Another transaction held a row for longer than `waitMs`. Nothing is open. */
  | { readonly kind: 'held' }

/**
 * The state of the transaction on the connection. `failed`: a statement failed, and 25P02 follows. `ended`: a handler
 * ended the transaction itself. `broken`: the connection is lost.
 */
export type TransactionStatus = 'open' | 'failed' | 'ended' | 'broken'

export type CommitAnswer =
  | { readonly kind: 'committed' }
  /** The server answered that nothing is committed. */
  | { readonly kind: 'rolled-back'; readonly error: unknown }
  /** The connection ended after COMMIT was sent. */
  | { readonly kind: 'unknown'; readonly error: OncewardError }
  /** Committed here, but not replicated as required (warning 01000). */
  | { readonly kind: 'not-replicated'; readonly error: OncewardError }

export interface Commit {
  /** The JSON texts to store, by event. */
  readonly results: ReadonlyMap<EventId, string>
  /** Events that failed before. Their `failed_events` rows are deleted in this transaction. */
  readonly recovered: readonly EventId[]
  /** Messages to store with the commit, in order. Only for a session that says `sendsMessages`. */
  readonly sends?: readonly CollectedMessage[] | undefined
  /**
   * Called once the transaction is committed, when a statement of a handler came after the handlers had returned: it is
   * refused, so the events are done without it. For each such statement, with its first words and without its values.
   * Resolves when that is on record: the statement is refused only then, because the refusal may end the process.
   */
  readonly onLate?: ((statement: string) => Promise<void>) | undefined
}

/** The next transaction of a guard, which waits for a connection: the text of a COMMIT may begin it (design.md §15). */
export interface NextBegin<Tx> {
  /** Called at most once, directly before COMMIT is sent, by a store that can begin it there. Undefined: none waits. */
  take(): BeginRequest | undefined
  /**
   * Called once after `take` has answered a request, before the answer to the commit.
   *
   * @param begun - What began behind the COMMIT. Undefined: nothing, and the request begins by itself.
   */
  begun(begun: Promise<Begun<Tx>> | undefined): void
}

/** One run of a handler in a transaction. */
export interface HandlerTurn {
  /** Undefined for a batch of events, and for an event without a key. */
  readonly eventId: string | undefined
  /** Whether no handler of the transaction comes after this one. If it returns, COMMIT follows. */
  readonly isLast: boolean
}

/** A savepoint of a handler. */
export interface Savepoint {
  /** Whether the handler has rolled back to it, or to one that it is within. */
  readonly isRolledBack: boolean
}

/** One open business transaction. After commit, rollback or revoke, `tx` refuses. */
export interface InboxTransaction<Tx> {
  /** The transaction handle that the user's handler gets. */
  readonly tx: Tx
  /** The status after the last answer of the server. */
  status(): TransactionStatus
  /**
   * If the status is `broken` because the store ends transactions that take too long: the error of the handler.
   *
   * @param error - What the handler threw.
   */
  outOfTime?(error: unknown): DeadlineExceededError | undefined
  /**
   * Runs a handler where the user's library finds this transaction, and then what the library does before it commits:
   * that is part of the run. Left out: the handler is called as it is.
   */
  runHandler?(handler: () => unknown, turn: HandlerTurn): unknown
  /** The user's library finds the transaction within the handler, which need not read `tx` then. */
  readonly isAmbient?: boolean | undefined
  /**
   * A handler has returned or thrown, and no handler of this transaction runs now.
   *
   * @param thrown - Undefined if it has returned.
   * @returns Why its run has failed although it may have returned: a statement that it did not await has failed, or it
   * has left a transaction open that it began itself.
   */
  ended?(thrown: unknown): OncewardError | undefined
  /** Whether a handler has sent a statement. Left out, or undefined: not known. */
  hasSent?(): boolean | undefined
  /** Whether a handler may have changed settings of the session. No other handler may run in this transaction then. */
  hasChangedSettings?(): boolean
  /** The innermost savepoint that a handler has open. What it sends meanwhile goes with it. Left out: it can have none. */
  savepoint?(): Savepoint | undefined
  /** Makes the handle refuse with `error` from now on, and cancels a running statement. */
  revoke(error: OncewardError): void
  /** @param next - May begin in the same round trip. A store that cannot do that ignores it. */
  commit(commit: Commit, next?: NextBegin<Tx>): Promise<CommitAnswer>
  /** Never throws: a connection that cannot roll back is destroyed. */
  rollback(): Promise<void>
  /** Rolls back and records the failures in one round trip. Like {@link InboxSession.fail}. */
  rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]>
  /**
   * Called after a handler ended this transaction itself. Deletes the rows that this transaction committed (same
   * `xmin`) for events that did not run.
   */
  retract(events: readonly IdentifiedEvent[]): Promise<void>
}

export type CountAnswer =
  | {
      readonly kind: 'counted'
      readonly token: OwnerToken
      readonly attempt: number
    }
  /** A live owner holds the row, or the row was counted less than five seconds ago. */
  | { readonly kind: 'held' }
  /** The state has changed meanwhile: classify again. */
  | { readonly kind: 'changed' }
  /** The attempts, or the runs without a verdict, were spent. The event is dead-lettered now and not published yet. */
  | {
      readonly kind: 'buried'
      readonly reason: DeadLetterReason
      readonly attempt: number
    }

interface Verdict {
  readonly event: IdentifiedEvent
  /** The token of the count. Undefined after a clean run, which left no row. */
  readonly token?: OwnerToken | undefined
  readonly attempt: number
  readonly error: unknown
}
export interface Failure extends Verdict {
  /** Milliseconds until the next attempt is due. */
  readonly delayMs: number
  /**
   * The handler asked to come back later: the attempt is given back and the deferral counted. After `most` of them the
   * answer is `spent`, and nothing changes.
   */
  readonly deferral?: { readonly most: number } | undefined
}
export interface Burial extends Verdict {
  readonly reason: DeadLetterReason
}
export interface Release {
  readonly event: IdentifiedEvent
  readonly token: OwnerToken
  /** `given-back`: attempt − 1, due now. `no-verdict`: the same, and the run is counted separately. */
  readonly as: 'given-back' | 'no-verdict'
}
/**
 * `lost`: the row has another owner now, and nothing changed. `spent`, of a deferral: the event was deferred too often, and
 * nothing changed.
 */
export type VerdictAnswer = 'recorded' | 'lost' | 'spent'

/** A refused message. It never changes the state of the event that has the same key. */
export interface Refusal {
  readonly delivery: Delivery
  readonly reason: DeadLetterReason
  readonly error: unknown
  readonly key?: string | undefined
  /** The message as it came, if `delivery` is sealed: the record is known by its hash. Left out: `delivery` is it. */
  readonly original?: Delivery | undefined
}

/** The answer to an event that is to be parked. Only `parked` has changed anything. */
export type ParkAnswer =
  /** The delivery is stored, and a poller of the consumer runs the event. */
  | { readonly kind: 'parked' }
  /** The event waits or runs with its delivery stored, is done, or is dead. */
  | { readonly kind: 'known'; readonly known: Exclude<Known, { kind: 'absent' }> }
  /** Another transaction held the row for longer than the wait. */
  | { readonly kind: 'held' }
  /** The delivery is larger than the inbox stores. */
  | { readonly kind: 'too-large' }

/** A stored delivery that the guard's own poller runs or publishes. */
export interface DueEvent {
  readonly ref: DeadLetterRef
  readonly what: 'run' | 'publish'
  readonly delivery: Delivery
  /** The stored identity. Undefined for refused messages, which are identified again. */
  readonly identity?: Omit<IdentifiedEvent, 'delivery'> | undefined
}

/** Where the pauses of a consumer are kept for all its processes. */
export interface PauseStore {
  /** The pause in force, with the time that is left of it on the store's clock. One statement. */
  read(): Promise<Pause | undefined>
  /** Stores a pause of this process, unless one that lasts longer is in force. */
  write(pause: Pause): Promise<void>
  /** Ends the pause. */
  end(): Promise<void>
}

/** An inbox as one guard uses it. All methods except those of the transaction are short transactions of their own. */
export interface InboxSession<Tx> {
  /** The number of transactions that the pool can carry, at most the requested number. */
  readonly concurrency: number
  /**
   * It stores {@link Delivery.sealed} with a delivery and gives it back, and results as the texts that they are. `troubled`:
   * deliveries are stored from the first failure on, with `suspect`, `count` and `fail` too. `ended`: only with `count`,
   * `park`, `bury`, `noteLate` and `refuse`. Left out: a guard with `seal` does not start.
   */
  readonly keepsSealed?: 'ended' | 'troubled' | undefined
  /** Its commits store the messages that handlers send. Left out: handlers cannot send. */
  readonly sendsMessages?: boolean | undefined
  /** Keeps the offsets of partitions. Left out: an event has a key. */
  readonly offsets?: OffsetStore | undefined
  /** Keeps the pauses of the consumer for all its processes. Left out: a pause is of one process. */
  readonly pauses?: PauseStore | undefined
  /** Secret for hashed keys in logs and metrics. The same in all processes. */
  readonly secret: Uint8Array
  /**
   * Identifies the tables and the history that commits belong to. It changes after a failover, a restore or a crash,
   * because earlier commits may then be lost.
   */
  identity(): Promise<string>
  /** @throws {@link StoreUnavailableError} if the store is down. Nothing is open then, and nothing stays claimed. */
  begin(request: BeginRequest): Promise<Begun<Tx>>
  /** Reads the stored states in one statement, in order. */
  classify(events: readonly IdentifiedEvent[]): Promise<readonly Known[]>
  /**
   * Records attempt 1 (state `r`) for the events without a row. Answers undefined for the others. One statement.
   *
   * @param waitMs - Maximum total wait for rows that other transactions hold.
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
   * Counts one more attempt of events whose run starts now. `together`: events that are due (`w`) and need not run
   * alone. `alone`: also replayed events and events without a verdict (`r`, not young).
   */
  count(
    events: readonly IdentifiedEvent[],
    run: 'together' | 'alone',
  ): Promise<readonly CountAnswer[]>
  /**
   * Stores events with their deliveries, due now. The answer `parked` is durable: from then on a poller of the consumer
   * runs the event. An event that waits or runs without a stored delivery gets this one and keeps its attempts, unless
   * the fingerprints conflict.
   *
   * @param waitMs - Maximum total wait for rows that other transactions hold. Rows that are committed are not waited for.
   */
  park(events: readonly IdentifiedEvent[], waitMs: number): Promise<readonly ParkAnswer[]>
  fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]>
  bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]>
  release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]>
  /**
   * Stores, for an operator, done events whose handler sent a statement too late (`late-statement`). They stay done.
   * Left out: they are only logged.
   */
  noteLate?(events: readonly Burial[]): Promise<void>
  refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]>
  /** Whether a dead letter's record holds the whole delivery; stores it now if it can. Left out: always. */
  isWhole?(ref: DeadLetterRef, delivery: Delivery): Promise<boolean>
  /**
   * Takes the right to publish a dead letter for `rightMs` on the store's clock, in a short transaction. Nothing is
   * locked afterwards. Meanwhile an operator's replay answers `held`. A right that is over can be taken by the next.
   */
  takePublishing(ref: DeadLetterRef, rightMs: number): Promise<PublishingRight>
  /**
   * Ends the right: marks the dead letter as published, or lets the next process try. `lost`: another process has taken
   * the right, or the dead letter was replayed. Then nothing changes. Without a successor the token is valid even after
   * its time.
   */
  endPublishing(ref: DeadLetterRef, token: OwnerToken, as: PublishingEnd): Promise<VerdictAnswer>
  /**
   * Parked events that are due, and parked dead letters to publish. Skips rows that other transactions hold.
   *
   * @param except - Events to leave out: they cannot be opened, and must not keep the others from their turn.
   */
  due(limit: number, except?: readonly EventId[]): Promise<readonly DueEvent[]>
  /**
   * Optional: without it, a message that ends the process while it is read does so whenever it is delivered, and reads that
   * fail are counted in each process.
   */
  readonly messageCounts?: MessageCounts | undefined
  /** Deletes the record of a replayed refused message. */
  resolveRefused(id: string): Promise<void>
  /** Deletes some done rows that are older than the window. `undefined`: another process sweeps. */
  sweep(): Promise<SweepStep | undefined>
  /**
   * Classifies an error of a statement: `serialization` (40001, 40P01), `store` (connection, resources or shutdown,
   * which says nothing about the event), `other`.
   */
  diagnose(error: unknown): 'serialization' | 'store' | 'other'
  /**
   * Whether any event of the consumer has ever got a state here, or an operator has acted on the consumer. Left out: not
   * known. One statement, which takes a second at most.
   */
  isProven?(): Promise<boolean>
  /** The connections in use now. Left out: the session does not know its pool. */
  poolUse?(): PoolUse
  /**
   * Tells operators that this guard runs, by the store's clock, in one statement. `close` takes it back. Left out: the
   * store has no list of its workers.
   */
  heartbeat?(): Promise<void>
  /** What the tables hold now, in one statement. Left out: nothing to tell. */
  figures?(): Promise<InboxFigures>
  /**
   * Gives back what the session itself has opened, as a pool of its own; calls that still run end first. Left out: the
   * session has opened nothing.
   */
  close?(): Promise<void>
}

/**
 * Counts how often a message was read (decoded, checked, identified) in vain, by a hash of the message itself: a message
 * that ends the process or makes a function of the user throw while it is read has no event yet. Its count is the only
 * trace.
 */
export interface MessageCounts {
  /**
   * Counts one more read of each message, unless its last read has not ended. `left`: the process of that read died, or
   * still reads; the message is not counted here. One statement.
   */
  start(deliveries: readonly Delivery[]): Promise<readonly ('started' | 'left')[]>
  /** Counts one more read of a message that is read alone. Answers the count. */
  startAlone(delivery: Delivery): Promise<number>
  /**
   * The reads ended with an error, and the messages will be read again. Counts the reads that were not counted when they
   * started. Answers the counts. One statement.
   */
  failed(deliveries: readonly Delivery[]): Promise<readonly number[]>
  /** The messages were read: deletes their counts. One statement. */
  end(deliveries: readonly Delivery[]): Promise<void>
}

export interface SweepStep {
  readonly deleted: number
  /** Whether the sweep has reached the end of the table. */
  readonly finished: boolean
}
