/** The rules of the outbox (design.md §12). A world leaves one of them out, to show what it is for. */
export interface OutboxRules {
  /** A flush locks the keys of its messages until its transaction has ended. */
  readonly locks: boolean
  /** All flushes take the locks in the same order. */
  readonly sortsLocks: boolean
  /** The sequence is drawn under the locks. */
  readonly drawsInside: boolean
  /** A relay reads what is not deleted. Otherwise it reads what is behind the last position that a relay has read. */
  readonly readsUndeleted: boolean
  /** A message is deleted after the broker has confirmed it. */
  readonly deletesAfter: boolean
  /** One relay at a time. */
  readonly leases: boolean
  /** A lease ends on the database's clock although its relay has not given it back. */
  readonly expires: boolean
  /** A message that was refused holds the later ones of its key. */
  readonly holdsKey: boolean
  /** Both writers send a message of each key. Otherwise each has a key of its own. */
  readonly sharesKeys: boolean
}

/** How often each fault may happen. */
export interface OutboxFaults {
  /** A writer dies before its COMMIT. Its event is delivered again. */
  readonly writer: number
  readonly relay: number
  /** A relay is frozen for longer than its lease, and goes on. */
  readonly freeze: number
  readonly refuse: number
  /** The broker has the message, and the relay does not hear of it. */
  readonly unconfirmed: number
}

/** A writer runs one event, whose handler sends one message of each of its keys. */
export interface Writer {
  readonly at: 'locks' | 'draws' | 'commits' | 'done'
  /** Keys that it has locked, and messages whose positions it has drawn. */
  readonly locked: readonly number[]
  readonly drawn: readonly Row[]
}

export interface Row {
  readonly message: number
  readonly position: number
  readonly attempts: number
  /** Refused, and not due again. */
  readonly isWaiting: boolean
}

export interface Relay {
  readonly hasLease: boolean
  /** What it has read and not published, in order. */
  readonly batch: readonly number[]
  /** Published, and not deleted. */
  readonly confirmed: number | undefined
}

export interface OutboxState {
  readonly writers: readonly Writer[]
  readonly next: number
  /** Committed, and not deleted. */
  readonly rows: readonly Row[]
  /** Messages of each key, in the order of their commits. */
  readonly commits: readonly (readonly number[])[]
  readonly relays: readonly Relay[]
  /** The relay that the lease belongs to. */
  readonly owner: number | undefined
  readonly cursor: number
  /** How often the broker has got each message. */
  readonly arrived: readonly number[]
  readonly dead: readonly number[]
  readonly left: OutboxFaults
  /** Copies that a fault explains. */
  readonly excused: number
  readonly wrong?: string | undefined
}

export const KEYS = 2
export const keyOf = (message: number): number => message % KEYS
