import type { EventId, Runtime } from '@onceward/core/ports'
import { MemoryPauses } from '../../../packages/core/src/memory/pauses.ts'
import { MemoryStore } from '../../../packages/core/src/memory/store.ts'
import { MemoryTables } from '../../../packages/core/src/memory/tables.ts'
import type { Actor, Scheduler } from '../world/scheduler.ts'
import { OutboxRows } from './outbox-rows.ts'

/** What the simulated handlers have committed for an event, and what was recorded of its failures. */
export interface Ledger {
  /** Payloads whose effects are committed. */
  readonly effects: readonly string[]
  readonly failures: number
  /** Not to be run before, ms of virtual time. */
  readonly dueAtMs: number
}

const EMPTY: Ledger = { effects: [], failures: 0, dueAtMs: 0 }

/** What is committed at one moment. */
type Committed = Pick<History, 'ledger' | 'outbox'> & {
  readonly store: Pick<MemoryStore, 'refused' | 'rules'> & {
    readonly tables: Pick<MemoryStore['tables'], 'rows' | 'troubles'>
  }
}

/** One history of the database: the guard's tables and the business's own. */
export class History {
  readonly store: MemoryStore
  readonly ledger: Map<EventId, Ledger>
  readonly outbox: OutboxRows

  constructor(clock: Runtime, from?: Committed) {
    this.store = new MemoryStore()
    // Before any process opens the store: an operator may replay a dead letter until then, and a store without a clock
    // reads the machine's.
    this.store.tables.setClock(clock)
    this.ledger = new Map(from?.ledger)
    this.outbox = new OutboxRows(from?.outbox)
    if (from === undefined) return
    const { rows, troubles } = this.store.tables
    for (const [id, row] of from.store.tables.rows) rows.set(id, row)
    for (const [id, trouble] of from.store.tables.troubles) troubles.set(id, trouble)
    for (const [id, refused] of from.store.refused) this.store.refused.set(id, refused)
    for (const [name, rule] of from.store.rules) this.store.rules.set(name, rule)
  }

  /** As it is now, for a later failover. */
  copy(): Committed {
    const { refused, rules, tables } = this.store
    return {
      ledger: new Map(this.ledger),
      outbox: new OutboxRows(this.outbox),
      store: {
        refused: new Map(refused),
        rules: new Map(rules),
        tables: { rows: new Map(tables.rows), troubles: new Map(tables.troubles) },
      },
    }
  }

  of(id: EventId): Ledger {
    return this.ledger.get(id) ?? EMPTY
  }

  /** Whether both have the same of the event: its row and its counts. */
  agrees({ store: { tables } }: History, id: EventId): boolean {
    const { rows, troubles } = this.store.tables
    return rows.get(id) === tables.rows.get(id) && troubles.get(id) === tables.troubles.get(id)
  }

  write(id: EventId, change: Partial<Ledger>): void {
    this.ledger.set(id, { ...this.of(id), ...change })
  }
}

/** A transaction as the server has it. */
export interface Backend {
  readonly owner: Actor
  /** Its client is gone: it died, or its connection broke. */
  readonly isOrphan: boolean
  /** The server ends the connection, and with it what is open on it. */
  kill(): void
}

export interface DatabaseOptions {
  readonly scheduler: Scheduler
  readonly servers: Actor
  /** The server's own clock. */
  readonly clock: Runtime
  /** Whether the plan has a failover, which needs earlier states. */
  readonly isRemembering: boolean
}

/** States kept for a failover to fall back to. */
const REMEMBERED = 8

/**
 * The simulated Postgres. Commits are serializable, because a commit is one step. A restart or a failover is a new
 * history made of what was committed: whatever waits in the old one, waits there for ever.
 */
export class Database {
  /** Names the history, as the identity of a Postgres cluster does. */
  generation = 1
  history: History
  upAtMs = 0
  /** Of every history: a failover loses none. */
  readonly pauses: MemoryPauses
  readonly backends: Set<Backend> = new Set()
  readonly #scheduler: Scheduler
  readonly #servers: Actor
  readonly #clock: Runtime
  readonly #isRemembering: boolean
  #past: Committed[] = []

  constructor({ scheduler, servers, clock, isRemembering }: DatabaseOptions) {
    this.#scheduler = scheduler
    this.#servers = servers
    this.#clock = clock
    this.#isRemembering = isRemembering
    this.history = new History(clock)
    const tables = new MemoryTables()
    tables.setClock(clock)
    this.pauses = new MemoryPauses(tables)
  }

  get nowMs(): number {
    return this.#scheduler.nowMs
  }

  isUp(): boolean {
    return this.#scheduler.nowMs >= this.upAtMs
  }

  /** Before something is written: what a failover may fall back to. */
  remember(): void {
    if (!this.#isRemembering) return
    this.#past.push(this.history.copy())
    if (this.#past.length > REMEMBERED) this.#past.shift()
  }

  /** Calls back on the server's clock; the answer cancels. */
  after(delayMs: number, callback: () => void): () => void {
    return this.#scheduler.setTimer(this.#servers, callback, delayMs)
  }

  /** The client is gone; the server notices sooner or later, and rolls back what is open by then. */
  orphan(owner: Actor): void {
    for (const backend of this.backends) {
      if (backend.owner !== owner) continue
      this.#scheduler.add(this.#servers, `backend of ${owner.name} ends`, () => backend.kill())
    }
  }

  /** All that is committed stays; all that is open is rolled back. */
  restart(downMs: number): void {
    this.#begin(new History(this.#clock, this.history), downMs)
  }

  /** The standby takes over; it lacks the last `commits`. */
  failOver(commits: number, downMs: number): void {
    const survivor = this.#past.at(-commits) ?? this.#past[0] ?? this.history
    this.#begin(new History(this.#clock, survivor), downMs)
  }

  #begin(history: History, downMs: number): void {
    this.history = history
    this.#past = []
    this.generation += 1
    this.upAtMs = this.#scheduler.nowMs + downMs
    this.backends.clear()
    // So that time has somewhere to go.
    this.#scheduler.setTimer(this.#servers, () => undefined, downMs)
  }
}
