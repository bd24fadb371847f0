import type { GuardOutage } from './guard-port.ts'
import type { DeadLetterReason } from './settlement.ts'

/** Answers of renewals since the guard was made, one per lease and renewal. */
export interface LeaseRenewals {
  /** The store extended the lease. */
  readonly held: number
  /** The store said that the event has another owner. */
  readonly lost: number
  /** The store did not answer in time, or answered with an error. */
  readonly failed: number
}

/** Connections of the pool that an inbox uses, shared with everything else that uses the pool. */
export interface PoolUse {
  readonly used: number
  readonly idle: number
  /** Callers that wait for a connection. */
  readonly waiting: number
  /** The largest number of connections. Undefined if the pool does not say. */
  readonly size?: number | undefined
}

/** What a guard does at this moment. */
export interface GuardReading {
  /** Deliveries that have no settlement yet. */
  readonly inHand: number
  /** Handlers that may run at the same time: fewer than the option if the pool cannot carry them. */
  readonly concurrency: number
  /** `open`: a store failed, and deliveries are deferred until it answers again. */
  readonly breaker: 'closed' | 'open'
  /** The consumer is paused: its stores are fine, and it starts nothing. Left out: it is not. */
  readonly paused?: boolean | undefined
  /**
   * Events of this process that are done although a statement of their handler came after the commit, and was refused.
   * Never goes back. Left out: none.
   */
  readonly incompleteEvents?: number | undefined
  /** What failed when it was last asked. */
  readonly outages: readonly GuardOutage['dependency'][]
  /** Undefined without a lease store, and before the stores are open. */
  readonly leases?: { readonly held: number; readonly renewals: LeaseRenewals } | undefined
  /** Undefined if the driver does not know its pool, and before the stores are open. */
  readonly pool?: PoolUse | undefined
}

/** What the tables of an inbox hold. */
export interface InboxFigures {
  /**
   * Dead letters of this consumer that wait for an operator, refused messages included: those among the newest 10,000
   * of all consumers.
   */
  readonly deadLetters: Readonly<Partial<Record<DeadLetterReason, number>>>
  /**
   * Stored messages of this consumer that wait: replayed events, accepted webhooks, and dead letters that wait for their
   * place.
   */
  readonly parked: number
  /** How long the first of them has been due, milliseconds; 0 if none is. */
  readonly parkedForMs: number
  /**
   * How long ago each consumer of the schema had its last heartbeat, milliseconds, by name: guards send one every 30 s.
   * So the workers of one consumer tell that another one has none. Left out: the store knows no heartbeats.
   */
  readonly workerSilencesMs?: Readonly<Record<string, number>> | undefined
  /** All tables of the schema, which consumers share. */
  readonly tables: readonly {
    readonly name: string
    /** With indexes and large values. */
    readonly bytes: number
    /** The server's estimate. */
    readonly rows: number
  }[]
}

/** A guard, as an observer that watches it reads it. */
export interface WatchedGuard {
  readonly consumer: string
  /** Cheap: no store is asked. */
  read(): GuardReading
  /**
   * One statement of a few milliseconds. Undefined before the inbox is open and without one. Rejects while the database
   * is down.
   */
  figures(): Promise<InboxFigures | undefined>
}
