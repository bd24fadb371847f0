import type { EpochMs } from './brands.ts'

export type DeferReason = 'in-progress' | 'not-due' | 'failed' | 'store-down'
export type DeadLetterReason =
  | 'fatal'
  | 'attempts-spent'
  | 'no-verdict'
  | 'invalid-payload'
  | 'fingerprint-mismatch'
  | 'missing-event-key'
  | 'unknown-type'
  | 'takeover'
  /**
   * Never of a settlement: the event is done, and a statement of its handler came after the commit. Only of what is
   * stored for an operator.
   */
  | 'late-statement'
/**
 * Why a delivery was deferred or abandoned. A closed list. The cause is part of the settlement, of the record for
 * `observe` and of the log line.
 */
export type DeferCause =
  /** Another owner holds the event's lease. */
  | 'held-by-lease'
  /** Another transaction holds the event's row. */
  | 'held-by-row'
  /** Another process counted a run of the event less than five seconds ago, or changed its state meanwhile. */
  | 'running-elsewhere'
  /** This process has the event in flight: an earlier delivery of it, or its stored copy, is running. */
  | 'in-flight-here'
  /** The event must run alone, and other runs of this process did not end within two seconds. Nothing was counted. */
  | 'waiting-alone'
  /**
   * A handler processes the delivery itself, and its guard had no free slot for two seconds: handlers hold all slots
   * while they wait for such deliveries.
   */
  | 'no-free-slot'
  /** An earlier event with the same ordering key was deferred or abandoned. */
  | 'lane-waits'
  /** The event failed before, and its next attempt is not due yet. */
  | 'not-due'
  /** The handler failed, and attempts are left. */
  | 'handler-failed'
  /** The event is committed, but `afterCommit` threw or gave no answer. The event does not run again. */
  | 'after-commit-failed'
  /** The event is dead, but its message is too large to store and has no other dead-letter place. */
  | 'not-stored'
  /** A user function that identifies the event (`decode`, `schema`, a resolver) asked for a retry. */
  | 'identify-failed'
  /** The event key was used with another payload, and `onConflict` is `'throw'`. */
  | 'conflict'
  /** The circuit breaker blocks calls to a store that failed before. */
  | 'breaker-open'
  /** A store did not answer, or answered with an error. */
  | 'store-error'
  /** The consumer is paused: by an operator, by a handler (`context.pauseFor`), or by its guard. */
  | 'paused'
  /** The handler called `context.defer` or `context.pauseFor`. */
  | 'deferred-by-handler'
  /** The consumer is shutting down. */
  | 'draining'
  /** The lease was lost: another owner may have taken the event over. */
  | 'lease-lost'
  /** The handler's deadline passed. */
  | 'deadline'
  /** COMMIT got no answer. */
  | 'commit-unknown'
  /** The commit was not replicated as the server requires (warning 01000). */
  | 'not-replicated'
  /** The dead-letter place refused the dead letter or did not confirm it. The record is stored, and it is tried again. */
  | 'dead-letter-place-down'
  /** Another process is publishing the dead letter. */
  | 'publishing-elsewhere'
export type AbandonReason = 'lease-lost' | 'deadline' | 'commit-unknown' | 'closing'

/** What the adapter must do with a delivery. It acts only after the stores have recorded the outcome. */
export type Settlement =
  | {
      readonly kind: 'ack'
      /** `parked`: the delivery is stored, and the guard's own poller runs its event or has ended it. */
      readonly by: 'processed' | 'duplicate' | 'parked' | 'skipped' | 'conflict' | 'unguarded'
      readonly result?: unknown
    }
  | {
      readonly kind: 'defer'
      readonly reason: DeferReason
      /** When the delivery may come back, on this process's clock. */
      readonly until: EpochMs
      readonly cause?: DeferCause
      readonly error?: unknown
    }
  | {
      readonly kind: 'dead-letter'
      readonly reason: DeadLetterReason
      readonly error?: unknown
    }
  | {
      readonly kind: 'abandon'
      readonly reason: AbandonReason
      readonly cause?: DeferCause
      readonly error?: unknown
    }
