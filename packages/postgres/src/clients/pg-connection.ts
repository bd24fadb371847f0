import {
  type ConfigurationError,
  type Logger,
  type OncewardError,
  RetryableError,
} from '@onceward/core'
import { endsWithin, LATE } from '@onceward/core/adapter'
import type { Runtime, Savepoint, TransactionStatus } from '@onceward/core/ports'
import type { Pool, PoolClient } from 'pg'
import type { QueryAnswer } from '../driver/driver.ts'
import type { HeldConnection, OnLate, SendAnswer } from '../driver/held-connection.ts'
import type { SessionSettings } from '../driver/session-settings.ts'
import type { StatementConnection } from '../driver/short-transaction.ts'
import { toStoreError } from '../errors.ts'
import { type Bounds, READ_SESSION, sessionBoundTexts } from '../transaction/claim-sql.ts'
import { HandlerStatements } from '../transaction/handler-statements.ts'
import { NestedTransactions } from '../transaction/nested-transactions.ts'
import { HandleGate } from '../transaction/refusing-handle.ts'
import { LibraryControl } from './library-control.ts'
import {
  cleanOrClosed,
  connect,
  hasConnection,
  idle,
  isInTransaction,
  refuseClient,
} from './pg-checkout.ts'
import { alwaysSurviveLoss, surviveLoss } from './pg-events.ts'
import { refusingClient } from './pg-handle.ts'
import { type Answers, inList, type PgAnswer, query, queryOf, sendTo } from './pg-query.ts'
import { type PgSession, sessionOf } from './pg-session.ts'
import type { WireSession } from './pg-wire.ts'

/** Longest wait for a cancel, connecting included. */
const CANCEL_MS = 2_000

/** pg writes and reads UTF-8, but a handler or another user of the pool may have changed the encoding. */
async function inUtf8(wire: WireSession, client: PoolClient): Promise<void> {
  if (wire.encoding === 'UTF8') return
  await sendTo(client, "set client_encoding = 'UTF8'")
  wire.encoding = 'UTF8'
}

function toAnswer(answer: PgAnswer | undefined): SendAnswer {
  return {
    rows: answer?.rows ?? [],
    rowCount: answer?.rowCount ?? 0,
    command: answer?.command,
  } satisfies QueryAnswer & SendAnswer
}

function toLastAnswer(answers: Answers): SendAnswer {
  return toAnswer(Array.isArray(answers) ? answers.at(-1) : answers)
}

const CONNECTING = 'connecting'

function refused(error: unknown): never {
  throw toStoreError(error, CONNECTING)
}

/** A spare connection for short statements. */
export async function connectForStatements(
  pool: Pool,
  runtime: Runtime,
  closed = 0,
): Promise<StatementConnection> {
  const lent = await connect(pool, runtime).catch(refused)
  if (!hasConnection(lent)) return refuseClient(lent)
  const isClean = isInTransaction(lent) === false
  const client = isClean ? lent : await cleanOrClosed({ pool, runtime }, lent, closed)
  if (client === undefined) return connectForStatements(pool, runtime, closed + 1)
  const undo = surviveLoss(client)
  const { wire } = sessionOf(client)
  wire.isUnreplicated = false
  return {
    isUnreplicated: () => wire.isUnreplicated,
    query: async (text, values) => toAnswer((await sendTo(client, queryOf(text, values))).at(-1)),
    send: async (texts) => {
      await inUtf8(wire, client)
      return toAnswer((await sendTo(client, queryOf(texts.join('; ')))).at(-1))
    },
    release: (isBroken) => {
      undo()
      client.release(isBroken)
    },
  }
}

interface SendParts<Answer> {
  readonly limitMs: number
  /** Without rows, pg gets a plain text. */
  readonly reads: 'rows' | 'no-rows'
  readonly read: (answers: Answers) => Answer
}

/** Where a transaction gets its connection from. */
export interface Lender {
  readonly pool: Pool
  readonly runtime: Runtime
  /** Gives the slot of the pool back. */
  readonly releaseSlot: () => void
  /** No other code takes connections of the pool. */
  readonly ownsSessions: boolean
  /** The pool that a cancel goes through, if it is another one. */
  readonly cancelPool?: Pool | undefined
  /** A library makes the handle of it, with {@link PgHeldConnection.hand}. */
  readonly isForLibrary?: boolean | undefined
}

/** What a library makes of a client: its own transaction. */
export interface LibraryTransaction<Tx> {
  readonly tx: Tx
  /** The transaction has ended: the library's own COMMIT or ROLLBACK is answered without the server. */
  end(isCommitted: boolean): void
}

/** Makes the library's own transaction on a client. Its BEGIN is answered without the server. */
export type ToLibraryTransaction<Tx> = (client: PoolClient) => Promise<LibraryTransaction<Tx>>

/** A checked-out client of pg, for one transaction. */
export class PgHeldConnection<Tx = PoolClient> implements HeldConnection<Tx> {
  /** What the handler gets. */
  tx: Tx
  readonly session: PgSession
  readonly #statements = new HandlerStatements()
  readonly #client: PoolClient
  readonly #lender: Lender
  /** A cancel is on its way still: the next statement of this connection would be its victim. */
  #mayBeCancelled = false
  readonly #undo: (() => void) | undefined
  readonly #gate = new HandleGate()
  readonly #nested = new NestedTransactions()
  readonly #library: LibraryControl | undefined
  #made: LibraryTransaction<Tx> | undefined
  #isCommitted = false
  #boundaries = 0

  constructor(lender: Lender, client: PoolClient) {
    const { isForLibrary, ownsSessions } = lender
    this.#lender = lender
    this.#client = client
    this.session = sessionOf(client)
    const [gate, nested, statements] = [this.#gate, this.#nested, this.#statements]
    if (isForLibrary === true) this.#library = new LibraryControl()
    // A library replaces it with its own handle.
    this.tx = refusingClient(client, { gate, statements, nested, library: this.#library }) as Tx
    // Without a listener of ours, a connection lost between two statements would end the process.
    this.#undo = ownsSessions ? void alwaysSurviveLoss(client) : surviveLoss(client)
  }

  /**
   * Makes the bounds settings of the session, if only onceward uses it. Rarely more than once for a connection:
   * what a handler leaves is bounded by each transaction, as on a pool that is shared.
   */
  async bound(bounds: Bounds): Promise<void> {
    const former = this.session.bound?.former ?? (await this.#learn([]))
    if (!this.session.isDirect()) return
    this.session.handlerLockTimeout = former.lockTimeout
    this.session.bound = { former, budgetMs: bounds.budgetMs }
    await this.#learn(sessionBoundTexts(bounds, former))
  }

  async #learn(texts: readonly string[]): Promise<SessionSettings> {
    const answers = await sendTo(this.#client, queryOf([...texts, READ_SESSION].join('; ')))
    return this.session.learn(answers.at(-1)?.rows[0] ?? {})
  }

  /** The claim is answered. A BEGIN or COMMIT from now on comes from the handler. */
  opened(): void {
    this.#boundaries = this.session.wire.boundaries
  }

  /** Gives the handler the transaction of a library in place of the client. */
  async hand(toTransaction: ToLibraryTransaction<Tx>): Promise<void> {
    this.#made = await toTransaction(this.tx as PoolClient)
    this.tx = this.#made.tx
    if (this.#library !== undefined) this.#library.phase = 'handler'
  }

  status(): TransactionStatus {
    return this.session.wire.status(this.#boundaries)
  }

  endCode(): string | undefined {
    return this.session.wire.endCode
  }

  isUtf8(): boolean {
    return this.session.wire.encoding === 'UTF8'
  }

  hasChangedSettings(): boolean {
    return this.#gate.hasChangedSettings
  }

  logTo(logger: Logger): void {
    this.#statements.logger = logger
  }

  ended(thrown: unknown): OncewardError | undefined {
    return this.#statements.ended(thrown) ?? this.#nested.leftOpen(thrown) ?? this.#hidden(thrown)
  }

  mistake(): OncewardError | undefined {
    return this.#statements.mistake(undefined) ?? this.#nested.leftOpen(undefined) ?? this.#hidden()
  }

  /** A handler that asked its library to end the transaction, and was not told that this is refused. */
  #hidden(thrown?: unknown): OncewardError | undefined {
    return thrown === undefined ? this.#library?.refused : undefined
  }

  savepoint(): Savepoint | undefined {
    return this.#gate.savepoints.current
  }

  hasSent(): boolean {
    return this.#gate.hasSent
  }

  close(refusal: () => OncewardError, late?: OnLate): void {
    this.#gate.close(refusal, late)
    if (late !== undefined) this.#statements.logger = undefined
  }

  revoke(error: OncewardError): void {
    this.#gate.revoke(error)
  }

  send(
    texts: readonly string[],
    limitMs: number,
    reads: 'rows' | 'no-rows' = 'rows',
  ): Promise<SendAnswer | typeof LATE> {
    return this.#send(texts, { limitMs, reads, read: toLastAnswer })
  }

  /** As {@link send}, with one answer for each statement. */
  sendAll(
    texts: readonly string[],
    limitMs: number,
    reads: 'rows' | 'no-rows',
  ): Promise<readonly PgAnswer[] | typeof LATE> {
    return this.#send(texts, { limitMs, reads, read: inList })
  }

  #send<Answer>(
    texts: readonly string[],
    { limitMs, reads, read }: SendParts<Answer>,
  ): Promise<Answer | typeof LATE> {
    this.session.wire.isUnreplicated = false
    const text = texts.join('; ')
    return new Promise((resolve, reject) => {
      const cancel = this.#lender.runtime.setTimer(() => resolve(LATE), limitMs)
      query(this.#client, reads === 'rows' ? queryOf(text) : text, (error, answers) => {
        cancel()
        if (error) return reject(error)
        if (this.#library !== undefined)
          this.#isCommitted = toLastAnswer(answers).command === COMMIT
        resolve(read(answers))
      })
    })
  }

  commands(): number {
    return this.session.wire.commands
  }

  isBusy(): boolean {
    return !this.#isLost() && this.session.isBusy()
  }

  idle(): Promise<void> {
    return this.#isLost() ? Promise.resolve() : idle(this.#client)
  }

  async cancel(): Promise<void> {
    const { pid } = this.session
    if (pid === undefined || this.#isLost()) return
    const { cancelPool, pool, runtime } = this.#lender
    const cancelling = cancelBackend(cancelPool ?? pool, runtime, pid)
    this.#mayBeCancelled = !(await endsWithin(runtime, cancelling, CANCEL_MS))
  }

  isUnreplicated(): boolean {
    return this.session.wire.isUnreplicated
  }

  release(): void {
    this.#leave(
      this.#mayBeCancelled || this.#isLost() || this.session.wire.isInTransaction !== false,
    )
  }

  destroy(): void {
    this.#leave(true)
  }

  /** The connection goes on with the transaction that the text of COMMIT has begun. This one sends nothing any more. */
  pass(): PgHeldConnection<Tx> {
    this.#undo?.()
    this.session.leave(false)
    return new PgHeldConnection<Tx>(this.#lender, this.#client)
  }

  #isLost(): boolean {
    return this.status() === 'broken'
  }

  #leave(destroyed: boolean): void {
    if (this.#library !== undefined) this.#endLibrary(this.#library)
    this.#undo?.()
    this.session.leave(this.#gate.hasChangedSettings)
    try {
      this.#client.release(destroyed)
    } finally {
      // A listener of the pool's `release` event may throw. The slot belongs to all guards on the pool.
      this.#lender.releaseSlot()
    }
  }

  #endLibrary(library: LibraryControl): void {
    library.phase = 'ending'
    this.#gate.close(isOver)
    this.#made?.end(this.#isCommitted)
  }
}

const COMMIT = 'COMMIT'

const isOver = (): RetryableError => new RetryableError('The transaction of this event is over.')

/**
 * Takes a connection from the pool. Where that fails, the slot is free again.
 *
 * @throws {@link StoreUnavailableError}, or {@link ConfigurationError} for clients that cannot tell how a transaction is.
 */
export function takeConnection<Tx = PoolClient>(
  lender: Lender,
  closed = 0,
): Promise<PgHeldConnection<Tx>> {
  return connect(lender.pool, lender.runtime).then(
    (client) =>
      isInTransaction(client) === false
        ? toHeld(lender, client)
        : takeAnother(lender, client, closed),
    (error: unknown) => {
      lender.releaseSlot()
      throw toStoreError(error, CONNECTING)
    },
  )
}

async function takeAnother<Tx>(
  lender: Lender,
  client: PoolClient,
  closed: number,
): Promise<PgHeldConnection<Tx>> {
  let clean: PoolClient | undefined
  try {
    clean = await cleanOrClosed(lender, client, closed)
  } catch (error) {
    lender.releaseSlot()
    throw error
  }
  return clean === undefined ? takeConnection(lender, closed + 1) : toHeld(lender, clean)
}

function toHeld<Tx>(lender: Lender, client: PoolClient): PgHeldConnection<Tx> {
  if (hasConnection(client)) return new PgHeldConnection(lender, client)
  lender.releaseSlot()
  return refuseClient(client)
}

/** Uses the pool, because the pool reaches the server with the same TLS settings and through the same poolers. */
export async function cancelBackend(pool: Pool, runtime: Runtime, pid: number): Promise<void> {
  const connection = await connectForStatements(pool, runtime)
  let isBroken = true
  try {
    await connection.query(`select pg_catalog.pg_cancel_backend(${pid})`)
    isBroken = false
  } finally {
    connection.release(isBroken)
  }
}
