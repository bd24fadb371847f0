import {
  CommitUnknownError,
  type DeadlineExceededError,
  type OncewardError,
  RetryableError,
  StoreUnavailableError,
} from '@onceward/core'
import { answerWithin, LATE, SWALLOWED_STATEMENT } from '@onceward/core/adapter'
import type {
  Commit,
  CommitAnswer,
  Failure,
  IdentifiedEvent,
  InboxTransaction,
  NextBegin,
  Savepoint,
  TransactionStatus,
  VerdictAnswer,
} from '@onceward/core/ports'
import type { BeginContext, Driver } from '../driver/driver.ts'
import type { HeldConnection, SendAnswer } from '../driver/held-connection.ts'
import { idArray } from '../driver/rows.ts'
import type { SessionSettings } from '../driver/session-settings.ts'
import { opening } from '../driver/short-transaction.ts'
import { inline } from '../driver/sql-literal.ts'
import {
  endsSession,
  needsOwnTransaction,
  sqlState,
  toCommitError,
  toStoreError,
} from '../errors.ts'
import { fail, failStatement, verdictAnswers } from '../inbox/verdicts.ts'
import { commitTexts, isOwnFailure } from './commit-sql.ts'
import { shown } from './handler-statements.ts'
import { wakeRelays } from './outbox-wake.ts'
import { retractText } from './retract-sql.ts'
import { timeLimitError } from './time-limits.ts'

/** A ROLLBACK without an answer within this time counts as a lost connection. */
const ROLLBACK_MS = 5_000
/** After a failure, statements that the handler left running get this long before they are cancelled. */
const LEFTOVER_MS = 250

/** Statements that the handler did not await are part of its effect if they end within this time. */
const UNAWAITED_MS = 10_000

const OVER =
  'The transaction of this event is over: its handler has returned or failed. Await every statement in the handler.'
const LEFT_BEHIND =
  'The handler returned while its statements were still running. Await every statement and close every cursor.'

export interface BusinessParts<Tx> {
  readonly held: HeldConnection<Tx>
  readonly driver: Driver<Tx>
  readonly context: BeginContext
  /** Id of the transaction. Undefined if it claimed at most one event. */
  readonly xid: string | undefined
  readonly budgetMs: number
  /** Of the session, as the transaction began. */
  readonly settings: SessionSettings
  /** A COMMIT without an answer within this time counts as a lost connection. */
  readonly commitSilenceMs: number
  /** Takes the next transaction of the guard along with COMMIT, if there is one and it may. */
  readonly chain?: ((next: NextBegin<Tx>) => ChainedBegin | undefined) | undefined
}

/** The next transaction, begun by the text that commits the one before it. One of the last three calls ends it. */
export interface ChainedBegin {
  /** Sends the statements of COMMIT with those that begin the next transaction. Answers COMMIT, whatever fails behind it. */
  send(commit: readonly string[], limitMs: number): Promise<SendAnswer | typeof LATE>
  /** COMMIT has committed: the next transaction goes on, if it has begun. */
  go(): void
  /** The server went on behind COMMIT, but the next transaction must not: it is rolled back. */
  giveUp(): void
  /** COMMIT failed or has no answer, so nothing was begun behind it. */
  stay(): void
}

/** The open business transaction, the same over every client. */
export class BusinessTransaction<Tx> implements InboxTransaction<Tx> {
  readonly tx: Tx
  readonly #parts: BusinessParts<Tx>
  readonly #held: HeldConnection<Tx>
  #isOver = false
  /** Statements that were completed before those of COMMIT. */
  #commandsBefore: number | undefined
  #revoked: OncewardError | undefined
  #cancelled: Promise<void> | undefined
  /** Undefined until that is known. */
  #isCommitted: boolean | undefined
  /** Of statements that came while COMMIT was on its way. */
  #outcome: PromiseWithResolvers<boolean> | undefined

  constructor(parts: BusinessParts<Tx>) {
    this.tx = parts.held.tx
    this.#held = parts.held
    this.#parts = parts
    parts.held.logTo(parts.context.logger)
  }

  status(): TransactionStatus {
    return this.#held.status()
  }

  outOfTime(error?: unknown): DeadlineExceededError | undefined {
    return timeLimitError(this.#held.endCode() ?? sqlState(error), error)
  }

  hasSent(): boolean {
    return this.#held.hasSent()
  }

  hasChangedSettings(): boolean {
    return this.#held.hasChangedSettings()
  }

  savepoint(): Savepoint | undefined {
    return this.#held.savepoint()
  }

  ended(thrown: unknown): OncewardError | undefined {
    return this.#held.ended(thrown)
  }

  revoke(error: OncewardError): void {
    this.#held.revoke(error)
    // If COMMIT has been sent, only the server decides.
    if (this.#isOver) return
    this.#revoked ??= error
    if (this.#held.isBusy()) this.#cancelled ??= this.#held.cancel()
  }

  commit(commit: Commit, next?: NextBegin<Tx>): Promise<CommitAnswer> {
    const { onLate } = commit
    this.#held.close(isOver, onLate && ((text) => this.#late(onLate, text)))
    return this.#held.isBusy() ? this.#commitLater(commit) : this.#commitNow(commit, next)
  }

  /** If the transaction is rolled back in the end, the statement is not missing. */
  async #late(onLate: NonNullable<Commit['onLate']>, text: string | undefined): Promise<void> {
    if (this.#isCommitted === undefined) this.#outcome ??= Promise.withResolvers()
    if (this.#isCommitted ?? (await this.#outcome?.promise)) await onLate(shown(text))
  }

  #settled(isCommitted: boolean): void {
    this.#isCommitted ??= isCommitted
    this.#outcome?.resolve(isCommitted)
  }

  /** Behind statements that the handler left, nothing else begins. */
  async #commitLater(commit: Commit): Promise<CommitAnswer> {
    const error = await this.#leftBehind()
    if (error === undefined) return this.#commitNow(commit, undefined)
    await this.rollback()
    return { kind: 'rolled-back', error }
  }

  #commitNow(commit: Commit, next: NextBegin<Tx> | undefined): Promise<CommitAnswer> {
    const error = this.#refusalToCommit()
    if (error !== undefined) return this.rollback().then(() => ({ kind: 'rolled-back', error }))
    const { context, settings, budgetMs } = this.#parts
    const { schema } = context.statements
    const hasChangedSettings = this.hasChangedSettings()
    const texts = commitTexts(commit, { schema, settings, hasChangedSettings, budgetMs })
    this.#isOver = true
    const mayChain = next !== undefined && !hasChangedSettings && this.#held.isUtf8()
    const chained = mayChain ? this.#parts.chain?.(next) : undefined
    return this.#sendCommit(texts, chained).then(
      (answer) => this.#committed(answer, commit, chained),
      (failure: unknown) => this.#commitFailed(failure, texts, chained),
    )
  }

  #sendCommit(
    texts: readonly string[],
    chained: ChainedBegin | undefined,
  ): Promise<SendAnswer | typeof LATE> {
    const { commitSilenceMs } = this.#parts
    const send = (some: readonly string[]): Promise<SendAnswer | typeof LATE> => {
      this.#commandsBefore = this.#held.commands()
      return chained === undefined
        ? this.#held.send(some, commitSilenceMs, 'no-rows')
        : chained.send(some, commitSilenceMs)
    }
    if (this.#held.isUtf8()) return send(texts)
    // A text of its own, because the server reads a text before it runs its first statement.
    return send([SPEAK_UTF8]).then((answer) => (answer === LATE ? LATE : send(texts)))
  }

  /** Waits for statements that the handler did not await. Those of a revoked transaction are cancelled anyway. */
  async #leftBehind(): Promise<OncewardError | undefined> {
    if (this.#revoked !== undefined) return this.#revoked
    const unawaitedMs = Math.min(UNAWAITED_MS, this.#parts.budgetMs)
    const answer = await this.#within(this.#held.idle(), unawaitedMs)
    return answer === LATE ? new RetryableError(LEFT_BEHIND) : undefined
  }

  /** Why COMMIT must not be sent; undefined if it may. */
  #refusalToCommit(): OncewardError | undefined {
    if (this.#revoked !== undefined) return this.#revoked
    switch (this.#held.status()) {
      case 'open':
        return this.#held.mistake()
      case 'failed':
        return this.#held.mistake() ?? new RetryableError(SWALLOWED_STATEMENT)
      case 'ended':
        return new RetryableError('The handler ended the transaction that onceward owns.')
      case 'broken':
        return (
          this.outOfTime() ??
          new StoreUnavailableError('The connection was lost before the commit.')
        )
    }
  }

  #committed(
    answer: SendAnswer | typeof LATE,
    { sends }: Commit,
    chained: ChainedBegin | undefined,
  ): CommitAnswer {
    const held = this.#held
    this.#settled(answer !== LATE && answer.command !== 'ROLLBACK')
    if (answer === LATE) {
      held.destroy()
      chained?.stay()
      return unknown(`COMMIT was not answered within ${this.#parts.commitSilenceMs} ms`)
    }
    const unreplicated = held.isUnreplicated()
    if (chained === undefined) held.release()
    else if (unreplicated || answer.command === 'ROLLBACK') chained.giveUp()
    else chained.go()
    if (answer.command === 'ROLLBACK') {
      return { kind: 'rolled-back', error: new RetryableError(SWALLOWED_STATEMENT) }
    }
    if (sends !== undefined) wakeRelays()
    if (!unreplicated) return { kind: 'committed' }
    return { kind: 'not-replicated', error: new CommitUnknownError(UNREPLICATED) }
  }

  /**
   * An error of the server is its answer, unless the connection ends with it: a backend that is shut down may report an
   * error after it has committed. If the backend still answers a ROLLBACK, it has not committed. The text of the error says
   * nothing, because a trigger may raise any.
   */
  async #commitFailed(
    error: unknown,
    texts: readonly string[],
    chained: ChainedBegin | undefined,
  ): Promise<CommitAnswer> {
    chained?.stay()
    this.#settled(false)
    const completed = (this.#held.commands() ?? 0) - (this.#commandsBefore ?? 0)
    const isOwn = isOwnFailure(texts, completed)
    if (sqlState(error) !== undefined && (await this.#rollBack())) {
      this.#held.release()
      return { kind: 'rolled-back', error: isOwn ? toCommitError(error) : error }
    }
    this.#held.destroy()
    return unknown('The connection ended after COMMIT was sent', error)
  }

  async rollback(): Promise<void> {
    if (this.#isOver) return
    this.#settled(false)
    await this.#end()
    const isClean = !this.#held.isBusy() && (await this.#rollBack())
    if (isClean && this.#revoked === undefined) this.#held.release()
    else this.#held.destroy()
  }

  async rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    const { driver, context } = this.#parts
    const separately = { driver, ...context }
    if (this.#isOver || this.#revoked !== undefined || !this.#canRecord()) {
      await this.rollback()
      return fail(separately, failures)
    }
    await this.#end()
    if (this.#held.isBusy()) {
      this.#held.destroy()
      return fail(separately, failures)
    }
    const { text, values } = failStatement(context, failures)
    let answer: SendAnswer | typeof LATE
    try {
      const texts = ['rollback', ...opening(driver.sendsAtOnce), inline(text, values)]
      answer = await this.#recorded(texts)
    } catch (error) {
      this.#giveBackAfter(error)
      if (needsOwnTransaction(error)) return fail(separately, failures)
      throw toStoreError(error, 'recording a failure')
    }
    if (answer !== LATE) {
      this.#held.release()
      return verdictAnswers(failures, answer)
    }
    this.#held.destroy()
    throw new StoreUnavailableError(`No failure could be recorded within ${ROLLBACK_MS} ms.`)
  }

  #canRecord(): boolean {
    const held = this.#held
    return held.endsWithTransaction !== true && held.status() !== 'broken' && held.isUtf8()
  }

  /** Where not all statements travel in one text, the transaction of the record has an end of its own. */
  async #recorded(texts: readonly string[]): Promise<SendAnswer | typeof LATE> {
    const answer = await this.#held.send(texts, ROLLBACK_MS)
    if (answer === LATE || this.#parts.driver.sendsAtOnce) return answer
    const end = await this.#held.send(['commit'], ROLLBACK_MS, 'no-rows')
    return end === LATE ? LATE : answer
  }

  async retract(events: readonly IdentifiedEvent[]): Promise<void> {
    const { context, driver, xid } = this.#parts
    await this.rollback()
    if (xid === undefined || events.length === 0) return
    await driver.durable(retractText(context.statements.schema), [idArray(events), xid])
  }

  /**
   * Starts no further statement. Statements in flight end or are cancelled. An open cursor of pg is neither: the
   * connection then stays busy, and every statement would wait behind the cursor.
   */
  async #end(): Promise<void> {
    const held = this.#held
    this.#isOver = true
    held.revoke(new RetryableError(OVER))
    await this.#cancelled
    if (!held.isBusy()) return
    if ((await this.#within(held.idle(), LEFTOVER_MS)) !== LATE) return
    await held.cancel()
    await this.#within(held.idle(), LEFTOVER_MS)
  }

  /** Whether the server answered. */
  async #rollBack(): Promise<boolean> {
    if (this.#held.status() === 'broken') return false
    try {
      return (await this.#held.send(['rollback'], ROLLBACK_MS, 'no-rows')) !== LATE
    } catch {
      return false
    }
  }

  #within<Answer>(asked: Promise<Answer>, limitMs: number): Promise<Answer | typeof LATE> {
    return answerWithin(this.#parts.context.runtime, asked, limitMs)
  }

  /** The ROLLBACK was sent before the statement that failed, so the connection is clean unless it was lost. */
  #giveBackAfter(error: unknown): void {
    if (endsSession(error)) this.#held.destroy()
    else this.#held.release()
  }
}

const isOver = (): RetryableError => new RetryableError(OVER)

const SPEAK_UTF8 = "set local client_encoding = 'UTF8'"

const UNREPLICATED =
  'The transaction is committed on this server but not replicated as synchronous_commit demands: a failover may lose it.'

function unknown(message: string, cause?: unknown): CommitAnswer {
  const what = `${message}: the outcome is unknown until the row of the event is read.`
  return { kind: 'unknown', error: new CommitUnknownError(what, { cause }) }
}
