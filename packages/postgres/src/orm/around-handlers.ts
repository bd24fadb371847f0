import type { DeadlineExceededError, OncewardError } from '@onceward/core'
import { describeError, endsWithin } from '@onceward/core/adapter'
import type {
  Begun,
  Commit,
  CommitAnswer,
  Failure,
  HandlerTurn,
  IdentifiedEvent,
  InboxTransaction,
  Savepoint,
  TransactionStatus,
  VerdictAnswer,
} from '@onceward/core/ports'
import type { BeginContext, Driver } from '../driver/driver.ts'

/** What a library does around the handlers of one transaction. */
export interface AroundHandlers<Tx> {
  /** What handlers get. */
  readonly tx: Tx
  /**
   * Runs a handler, and behind the last one what the library does before it commits. An error is the handler's. May run
   * again although an earlier handler of the transaction has failed.
   */
  run(handler: () => unknown, turn: HandlerTurn): unknown
  /** Code that does not get `tx` finds the transaction within a handler. */
  readonly isAmbient?: boolean
  /** The transaction has ended. What the library then calls of the user's runs outside of it. */
  ended?(isCommitted: boolean): Promise<void>
}

/** Makes what surrounds the handlers of one transaction. */
export type ToAround<Inner, Tx> = (inner: Inner, context: BeginContext) => AroundHandlers<Tx>

/** A driver whose handlers run where their library finds the transaction, and with what the library does around it. */
export function aroundHandlers<Inner, Tx>(
  driver: Driver<Inner>,
  toAround: ToAround<Inner, Tx>,
): Driver<Tx> {
  return {
    ...driver,
    begin: async (request, context) => {
      const begun: Begun<Inner> = await driver.begin(request, context)
      if (begun.kind !== 'open') return begun
      const { claimed, transaction } = begun
      const around = toAround(transaction.tx, context)
      return {
        ...{ kind: 'open', claimed },
        transaction: new SurroundedTransaction(transaction, around, context),
      }
    },
  }
}

/** Longest wait for what a library calls when a transaction has ended. The delivery is settled then. */
const LISTENERS_MS = 5_000

const FAILED =
  'a listener of the ORM failed after the transaction had ended, so its effect may be missing: an effect of the event belongs in the handler, or in a listener that runs before the commit'

class SurroundedTransaction<Inner, Tx> implements InboxTransaction<Tx> {
  readonly tx: Tx
  readonly isAmbient: boolean
  readonly #inner: InboxTransaction<Inner>
  readonly #around: AroundHandlers<Tx>
  readonly #context: BeginContext
  #eventId: string | undefined
  #hasEnded = false

  constructor(inner: InboxTransaction<Inner>, around: AroundHandlers<Tx>, context: BeginContext) {
    this.tx = around.tx
    this.isAmbient = around.isAmbient === true
    this.#inner = inner
    this.#around = around
    this.#context = context
  }

  runHandler(handler: () => unknown, turn: HandlerTurn): unknown {
    this.#eventId = turn.eventId
    return this.#around.run(handler, turn)
  }

  async commit(commit: Commit): Promise<CommitAnswer> {
    const answer = await this.#inner.commit(commit)
    // What an unknown commit did is read from the row of the event. Listeners are told nothing then.
    if (answer.kind !== 'unknown') await this.#ended(answer.kind !== 'rolled-back')
    return answer
  }

  async #ended(isCommitted: boolean): Promise<void> {
    if (this.#hasEnded || this.#around.ended === undefined) return
    this.#hasEnded = true
    const { logger, runtime } = this.#context
    const telling = this.#around.ended(isCommitted).catch((error: unknown) => {
      logger.error({ eventId: this.#eventId, isCommitted, err: describeError(error) }, FAILED)
    })
    await endsWithin(runtime, telling, LISTENERS_MS)
  }

  status(): TransactionStatus {
    return this.#inner.status()
  }

  outOfTime(error: unknown): DeadlineExceededError | undefined {
    return this.#inner.outOfTime?.(error)
  }

  ended(thrown: unknown): OncewardError | undefined {
    return this.#inner.ended?.(thrown)
  }

  hasSent(): boolean | undefined {
    return this.#inner.hasSent?.()
  }

  hasChangedSettings(): boolean {
    return this.#inner.hasChangedSettings?.() ?? false
  }

  savepoint(): Savepoint | undefined {
    return this.#inner.savepoint?.()
  }

  revoke(error: OncewardError): void {
    this.#inner.revoke(error)
  }

  async rollback(): Promise<void> {
    await this.#inner.rollback()
    await this.#ended(false)
  }

  async rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    const answers = await this.#inner.rollbackAndFail(failures)
    await this.#ended(false)
    return answers
  }

  retract(events: readonly IdentifiedEvent[]): Promise<void> {
    return this.#inner.retract(events)
  }
}
