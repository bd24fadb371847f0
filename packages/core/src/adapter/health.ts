/** A dependency that does not answer now, or refuses what it is asked. */
export interface DependencyOutage {
  /**
   * `inbox`: PostgreSQL. `leases`: the lease store; with an inbox, events are processed without it. `dead-letters`: the
   * dead-letter place; all other events are processed.
   */
  readonly dependency: 'broker' | 'inbox' | 'leases' | 'dead-letters'
  /** Contains no payload. */
  readonly reason: string
}

/** Why nothing is received at the moment. */
export interface Outage {
  /** `paused`: the store is down. `recovering`: the broker is down, or refuses the consumer. */
  readonly state: 'paused' | 'recovering'
  readonly reason: string
}

/** Why nothing comes to a wrap; `stopped`: until its user consumes again. */
export interface WrapOutage {
  readonly state: 'recovering' | 'stopped'
  readonly reason: string
}

/** The state of a consumer. */
export interface Health {
  /**
   * `paused`: the store is down; of a wrap for half a minute at most, then its next message asks the store again.
   * `recovering`: the broker is down, or refuses the consumer or what it publishes. `stopped`: drained, or a wrap to
   * which nothing comes any more.
   */
  readonly state: 'running' | 'paused' | 'recovering' | 'draining' | 'stopped'
  /** Messages received and not settled yet. */
  readonly inFlight: number
  /** When the broker last answered a receive (or a heartbeat), or a message was last settled. */
  readonly lastProgressAt?: Date | undefined
  readonly reason?: string | undefined
  /** What failed when it was last asked, also that without which the consumer is `running`. Left out if nothing did. */
  readonly outages?: readonly DependencyOutage[] | undefined
  /** Settlements that the broker refused since the start. Their messages return, and the store recognizes them. */
  readonly settleFailures: number
}
