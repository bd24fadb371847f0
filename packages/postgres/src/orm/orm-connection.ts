import type { Logger, OncewardError } from '@onceward/core'
import { answerWithin, endsWithin, type LATE } from '@onceward/core/adapter'
import type { Runtime, Savepoint, TransactionStatus } from '@onceward/core/ports'
import type { Connection, QueryAnswer } from '../driver/driver.ts'
import type { HeldConnection, OnLate, SendAnswer } from '../driver/held-connection.ts'
import { losesSession, sqlState } from '../errors.ts'
import type { PreparedClaim } from '../transaction/claim-answer-sql.ts'
import type { Isolation } from '../transaction/claim-sql.ts'
import { RUN_DEFERRED } from '../transaction/commit-sql.ts'
import type { OpenTransaction } from './callback-transaction.ts'
import type { StatementWatch } from './statement-watch.ts'

/** Longest wait for a cancel. */
const CANCEL_MS = 2_000

/** An open transaction of an ORM that tells nothing of its connection. */
export interface OrmTransaction<Tx>
  extends Pick<OpenTransaction<unknown>, 'commit' | 'rollback' | 'lost'> {
  /** The handler's handle, whose statements all pass the watch. */
  readonly tx: Tx
  /** Sends a text of onceward, which does not pass the watch. Resolves with the answer of its last statement. */
  query(text: string): Promise<QueryAnswer>
  /** Sends a text of several statements, and gives no answer back. Left out: they are sent as `query` can. */
  execute?(text: string): Promise<void>
  /** Sends a statement that is the same for all events, so that it may be prepared. Left out: it is sent as a text. */
  prepared?(claim: PreparedClaim): Promise<QueryAnswer>
  /** Asks the server to cancel the running statement. Left out: over the guard's own connections. */
  cancel?(): Promise<void>
}

export interface OrmBegin {
  readonly isolation: Isolation
  /** Longest time of the transaction from now on, ms. Some ORMs have a limit of their own, which must not be shorter. */
  readonly budgetMs: number
  readonly watch: StatementWatch
}

/** An ORM that tells nothing of its connections. */
export interface OrmClient<Tx> {
  /** Begins a transaction in READ WRITE mode. Rejects with the ORM's own error. */
  begin(request: OrmBegin): Promise<OrmTransaction<Tx>>
  /** Whether a text may contain several statements. */
  readonly takesSeveral: boolean
  /** Whether statements are sent in their order without waiting for the answers, so that COMMIT may follow at once. */
  readonly pipelines: boolean
}

interface OrmConnectionParts<Tx> {
  readonly client: Pick<OrmClient<Tx>, 'takesSeveral' | 'pipelines'>
  readonly transaction: OrmTransaction<Tx>
  readonly watch: StatementWatch
  readonly runtime: Runtime
  /** The guard's own statements. */
  readonly own: Pick<Connection, 'query'>
  readonly releaseSlot: () => void
}

/** A transaction of an ORM, with what its statements show of its connection. */
export class OrmConnection<Tx> implements HeldConnection<Tx> {
  readonly tx: Tx
  readonly endsWithTransaction = true
  /** Process id of the server, from the claim. */
  pid: number | undefined
  readonly #parts: OrmConnectionParts<Tx>
  #commands = 0
  #end: Promise<void> | undefined
  #hasEnded = false
  #endError: unknown
  /** A cancel is on its way still: the next statement of this connection would be its victim. */
  #mayBeCancelled = false

  constructor(parts: OrmConnectionParts<Tx>) {
    this.tx = parts.transaction.tx
    this.#parts = parts
  }

  logTo(logger: Logger): void {
    this.#parts.watch.logTo(logger)
  }

  ended(thrown: unknown): OncewardError | undefined {
    return thrown === undefined ? this.mistake() : undefined
  }

  mistake(): OncewardError | undefined {
    return this.#parts.watch.mistake()
  }

  status(): TransactionStatus {
    return this.#parts.transaction.lost === undefined ? this.#parts.watch.status : 'broken'
  }

  endCode(): string | undefined {
    return sqlState(this.#parts.transaction.lost)
  }

  isUtf8(): boolean {
    return true
  }

  hasChangedSettings(): boolean {
    return this.#parts.watch.gate.hasChangedSettings
  }

  savepoint(): Savepoint | undefined {
    return this.#parts.watch.gate.savepoints.current
  }

  hasSent(): boolean {
    return this.#parts.watch.gate.hasSent
  }

  close(refusal: () => OncewardError, late?: OnLate): void {
    this.#parts.watch.gate.close(refusal, late)
    if (late !== undefined) this.#parts.watch.logTo(undefined)
  }

  revoke(error: OncewardError): void {
    this.#parts.watch.gate.revoke(error)
  }

  send(texts: readonly string[], limitMs: number): Promise<SendAnswer | typeof LATE> {
    return answerWithin(this.#parts.runtime, this.#send(texts), limitMs)
  }

  /** Claims fresh events with a statement that the client may prepare. Undefined if it takes no parameters. */
  claim(claim: PreparedClaim, limitMs: number): Promise<QueryAnswer | typeof LATE> | undefined {
    const asked = this.#parts.transaction.prepared?.(claim)
    return asked === undefined ? undefined : answerWithin(this.#parts.runtime, asked, limitMs)
  }

  async #send(texts: readonly string[]): Promise<SendAnswer> {
    if (texts[0] === 'rollback') return this.#rollBack()
    if (texts.at(-1) === 'commit') return this.#commit(texts.slice(0, -1))
    return { ...(await this.#query(texts)), command: undefined }
  }

  async #query(texts: readonly string[]): Promise<QueryAnswer> {
    const { client, transaction } = this.#parts
    let answer: QueryAnswer = NOTHING
    if (client.takesSeveral && texts.length > 1) {
      answer = await transaction.query(texts.join('; '))
      this.#commands += texts.length
      return answer
    }
    for (const text of texts) {
      answer = await transaction.query(text)
      this.#commands += 1
    }
    return answer
  }

  /** What travels before COMMIT also shows that the transaction has not failed: the ORM hides the answer to COMMIT. */
  async #commit(before: readonly string[]): Promise<SendAnswer> {
    const { client } = this.#parts
    const asked = this.#beforeCommit(before)
    if (!client.pipelines) await asked
    const [sent, committed] = await Promise.allSettled([asked, this.#ended('commit')])
    if (sent.status === 'rejected') throw sent.reason
    if (committed.status === 'rejected') throw committed.reason
    return { ...NOTHING, command: 'COMMIT' }
  }

  /** What the handler has deferred runs in a text of its own: the number of completed statements tells whose error it is. */
  async #beforeCommit(texts: readonly string[]): Promise<void> {
    const { transaction } = this.#parts
    const own = texts.indexOf(RUN_DEFERRED) + 1
    if (transaction.execute === undefined || texts.length - own < 2) {
      await this.#query(texts)
      return
    }
    for (const part of [texts.slice(0, own), texts.slice(own)]) {
      if (part.length > 0) await transaction.execute(part.join('; '))
      this.#commands += part.length
    }
  }

  /** After a COMMIT that failed, whether the server has answered it: then nothing is left to roll back. */
  async #rollBack(): Promise<SendAnswer> {
    if (this.#end === undefined) await this.#ended('rollback')
    else if (!this.#hasEnded || losesSession(this.#endError)) throw this.#endError
    return { ...NOTHING, command: 'ROLLBACK' }
  }

  #ended(how: 'commit' | 'rollback'): Promise<void> {
    const end = this.#parts.transaction[how]()
    this.#end = end
    const settled = (error?: unknown): void => {
      this.#hasEnded = true
      this.#endError = error
    }
    end.then(() => settled(), settled)
    return end
  }

  commands(): number {
    return this.#commands
  }

  isBusy(): boolean {
    return this.#parts.watch.isBusy
  }

  idle(): Promise<void> {
    return this.#parts.watch.idle()
  }

  async cancel(): Promise<void> {
    const { own, runtime, transaction } = this.#parts
    if (this.pid === undefined || this.status() === 'broken') return
    const asked =
      transaction.cancel?.() ?? own.query(`select pg_catalog.pg_cancel_backend(${this.pid})`)
    this.#mayBeCancelled = !(await endsWithin(runtime, asked, CANCEL_MS))
  }

  isUnreplicated(): boolean {
    return false
  }

  release(): void {
    if (this.#mayBeCancelled) this.destroy()
    else this.#leave()
  }

  /** No statement may run on this connection again, so the server ends it. It may be in use elsewhere once it has ended. */
  destroy(): void {
    const { own, transaction } = this.#parts
    const isOpen = !this.#hasEnded && transaction.lost === undefined
    if (isOpen && this.pid !== undefined) {
      own.query(`select pg_catalog.pg_terminate_backend(${this.pid})`).catch(() => undefined)
    }
    this.#leave()
  }

  #leave(): void {
    const { releaseSlot, transaction } = this.#parts
    const end = this.#end ?? (transaction.lost === undefined ? this.#ended('rollback') : undefined)
    if (end === undefined) releaseSlot()
    else end.then(releaseSlot, releaseSlot)
  }
}

const NOTHING: QueryAnswer = { rows: [], rowCount: 0 }
