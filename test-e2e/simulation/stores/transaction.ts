import type { OncewardError } from '@onceward/core'
import { CommitUnknownError, StoreUnavailableError } from '@onceward/core'
import type {
  BeginRequest,
  Begun,
  CollectedMessage,
  Commit,
  CommitAnswer,
  EventId,
  Failure,
  IdentifiedEvent,
  InboxTransaction,
  NextBegin,
  TransactionStatus,
  VerdictAnswer,
} from '@onceward/core/ports'
import type { Link } from '../world/link.ts'
import type { Life } from '../world/process.ts'
import type { Backend, Database, History } from './database.ts'

/** What a handler of the simulation gets as `tx`. */
export interface Business {
  /** One statement: the effect of the event with this payload. */
  write(id: EventId, payload: string): Promise<void>
  /** One statement, which the server refuses with this SQLSTATE. */
  refuse(sqlState: string): Promise<void>
}

/** An error of a statement, as drivers throw it. */
export class StatementError extends Error {
  readonly code: string

  constructor(code: string) {
    super(`the server refused the statement: ${code}`)
    this.code = code
  }
}

/** What a transaction needs of the session it belongs to. */
export interface Surroundings {
  readonly life: Life
  readonly link: Link
  readonly database: Database
  /** Begins at the server, in the session that was connected in this epoch. */
  readonly begin: (request: BeginRequest, epoch: number) => Promise<Begun<Business>>
  readonly fail: (failures: readonly Failure[]) => Promise<readonly VerdictAnswer[]>
  readonly timedOut: (events: readonly EventId[]) => void
  readonly committed: (
    events: readonly EventId[],
    effects: readonly Effect[],
    sends: readonly CollectedMessage[],
  ) => void
}

export interface Effect {
  readonly id: EventId
  readonly payload: string
}

/** The open transaction of the memory inbox, with the business's writes in it and a network before it. */
export class SimulatedTransaction implements InboxTransaction<Business>, Backend {
  readonly tx: Business
  readonly owner: Life
  readonly #inner: InboxTransaction<undefined>
  readonly #on: Surroundings
  readonly #history: History
  readonly #epoch: number
  readonly #claimed: readonly EventId[]
  readonly #staged: Effect[] = []
  // The server's side.
  #isOpen = true
  #failedWith: unknown
  #cancelTimeout: () => void = () => undefined
  // The client's side.
  #status: TransactionStatus = 'open'
  #refusal: Error | undefined

  constructor(
    inner: InboxTransaction<undefined>,
    on: Surroundings,
    begun: { readonly epoch: number; readonly claimed: ReadonlySet<EventId> },
  ) {
    this.#inner = inner
    this.#on = on
    this.#history = on.database.history
    this.#epoch = begun.epoch
    this.#claimed = [...begun.claimed]
    this.owner = on.life
    this.tx = {
      write: (id, payload) => this.#statement(() => this.#staged.push({ id, payload })),
      refuse: (sqlState) =>
        this.#statement(() => {
          this.#failedWith = new StatementError(sqlState)
          throw this.#failedWith
        }),
    }
  }

  get isOrphan(): boolean {
    return !this.owner.isAlive || this.#on.link.epoch !== this.#epoch
  }

  /** As `idle_in_transaction_session_timeout`: the rows of a frozen client are free again. */
  limit(budgetMs: number): void {
    this.#cancelTimeout = this.#on.database.after(budgetMs, () => {
      this.#on.timedOut(this.#claimed)
      this.kill()
    })
  }

  status(): TransactionStatus {
    if (this.#status !== 'ended' && this.#on.link.epoch !== this.#epoch) this.#status = 'broken'
    return this.#status
  }

  revoke(error: OncewardError): void {
    this.#refusal ??= error
    this.#inner.revoke(error)
  }

  async commit(commit: Commit, next?: NextBegin<Business>): Promise<CommitAnswer> {
    if (this.status() === 'broken') return { kind: 'rolled-back', error: lostConnection() }
    const request = next?.take()
    let begun: Begun<Business> | undefined
    try {
      if (request === undefined) {
        return await this.#on.link.call('commit', () => this.#commit(commit))
      }
      const both = await this.#on.link.call('commit, begin', () => this.#chain(commit, request))
      begun = both.begun
      return both.answer
    } catch (error) {
      return { kind: 'unknown', error: new CommitUnknownError('no answer', { cause: error }) }
    } finally {
      this.#close()
      if (request !== undefined) next?.begun(begun && Promise.resolve(begun))
    }
  }

  /** One text: what fails behind COMMIT is the next transaction's alone, and nothing begins behind one that fails. */
  async #chain(
    commit: Commit,
    request: BeginRequest,
  ): Promise<{ readonly answer: CommitAnswer; readonly begun: Begun<Business> | undefined }> {
    const answer = await this.#commit(commit)
    if (answer.kind !== 'committed') return { answer, begun: undefined }
    try {
      const begun = await this.#on.begin(request, this.#epoch)
      return { answer, begun: begun.kind === 'held' ? undefined : begun }
    } catch (error) {
      if (error instanceof StoreUnavailableError) throw error
      return { answer, begun: undefined }
    }
  }

  async rollback(): Promise<void> {
    const isBroken = this.status() === 'broken'
    this.#close()
    if (isBroken) return
    try {
      await this.#on.link.call('rollback', () => this.#end())
    } catch {
      // A connection that cannot roll back is destroyed; its backend notices.
    }
  }

  rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    this.#close()
    return this.#on.link.call('fail', () => {
      this.#end()
      return this.#on.fail(failures)
    })
  }

  /** The simulated handlers end no transaction themselves. */
  retract(events: readonly IdentifiedEvent[]): Promise<void> {
    return this.#inner.retract(events)
  }

  kill(): void {
    this.#end()
  }

  toJSON(): string {
    return 'transaction'
  }

  #end(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#cancelTimeout()
    this.#on.database.backends.delete(this)
    void this.#inner.rollback()
  }

  #close(): void {
    if (this.status() !== 'broken') this.#status = 'ended'
    this.#refusal ??= new Error('the transaction is over')
  }

  async #statement(execute: () => void): Promise<void> {
    this.#assertUsable()
    try {
      await this.#on.link.call('write', () => {
        this.#assertConnected()
        if (this.#failedWith !== undefined) throw new StatementError('25P02')
        execute()
      })
    } catch (error) {
      if (this.#status === 'open') {
        this.#status = error instanceof StatementError ? 'failed' : 'broken'
      }
      throw error
    }
    this.#assertUsable()
  }

  async #commit(commit: Commit): Promise<CommitAnswer> {
    this.#assertConnected()
    if (this.#failedWith !== undefined) {
      this.#end()
      return { kind: 'rolled-back', error: this.#failedWith }
    }
    this.#isOpen = false
    this.#cancelTimeout()
    this.#on.database.backends.delete(this)
    this.#on.database.remember()
    const answer = await this.#inner.commit(commit)
    if (answer.kind !== 'committed') return answer
    const { sends = [] } = commit
    this.#history.outbox.insert(sends, this.#on.database.nowMs)
    this.#on.committed(this.#claimed, this.#staged, sends)
    return answer
  }

  #assertUsable(): void {
    if (this.#refusal !== undefined) throw this.#refusal
  }

  #assertConnected(): void {
    if (!this.#isOpen || this.#history !== this.#on.database.history) throw lostConnection()
  }
}

function lostConnection(): Error {
  return new StoreUnavailableError('the connection was lost')
}

/** Carries the claim out at the server. Whoever asked may be gone by the time it has its rows. */
export async function beginAtServer(
  begin: (request: BeginRequest) => Promise<Begun<undefined>>,
  request: BeginRequest,
  on: Surroundings,
  epoch: number,
): Promise<Begun<Business>> {
  const { database, life, link } = on
  const { history } = database
  const begun = await begin(request)
  if (begun.kind !== 'open') return begun
  if (database.history !== history) throw lostConnection()
  const { claimed } = begun
  const transaction = new SimulatedTransaction(begun.transaction, on, { epoch, claimed })
  database.backends.add(transaction)
  if (!life.isAlive || link.epoch !== epoch) database.orphan(life)
  else transaction.limit(request.budgetMs)
  return { kind: 'open', transaction, claimed }
}
