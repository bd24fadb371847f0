import { type Logger, type OncewardError, RetryableError } from '@onceward/core'
import type { TransactionStatus } from '@onceward/core/ports'
import { endsConnection, sqlState } from '../errors.ts'
import { HandlerStatements } from '../transaction/handler-statements.ts'
import { HandleGate, refusedControls } from '../transaction/refusing-handle.ts'

/**
 * The statements of the handlers of one transaction, over a client that tells nothing of its connection. The ORM's handle
 * asks before each statement, and shows its answer.
 */
export class StatementWatch {
  readonly gate: HandleGate = new HandleGate()
  /** Why the handler's run fails although the ORM may have hidden the refusal from it. */
  refused: OncewardError | undefined
  /** Queries that the handler has made and not awaited, with their names, where the ORM sends them only then. */
  readonly unsent: Map<object, string> = new Map()
  #status: Exclude<TransactionStatus, 'ended'> = 'open'
  readonly #running = new Set<PromiseLike<unknown>>()
  readonly #refusals = new HandlerStatements()

  get status(): TransactionStatus {
    return this.#status
  }

  get isBusy(): boolean {
    return this.#running.size > 0
  }

  /** Resolves when no statement runs. */
  async idle(): Promise<void> {
    while (this.isBusy) await Promise.allSettled(this.#running)
  }

  logTo(logger: Logger | undefined): void {
    this.#refusals.logger = logger
  }

  /** The promise of a statement that is not sent. If nobody awaits it, that is logged: Node would end the process. */
  refuse(refusal: OncewardError, text: string | undefined): Promise<never> {
    return this.#refusals.refused({ error: refusal, gate: this.gate, text })
  }

  /** Why a handler's run fails although it has returned. */
  mistake(): OncewardError | undefined {
    return this.refused ?? this.#forgotten()
  }

  #forgotten(): OncewardError | undefined {
    const [title] = this.unsent.values()
    if (title === undefined) return undefined
    return new RetryableError(
      `The run failed because \`${title}\` was not awaited, and the ORM has not sent it: await every query in the handler.`,
    )
  }

  /**
   * Why a statement must not be sent. Undefined if it may.
   *
   * @param text - Undefined if it is not known.
   */
  refusal(text: string | undefined): OncewardError | undefined {
    const closed = this.gate.refusal(text)
    if (closed !== undefined) return closed
    const control = text === undefined ? undefined : refusedControls(text)
    if (control === undefined) this.gate.sent(text)
    else this.refused ??= control
    return control
  }

  /** A statement is sent. Its promise may be that of the handler, and is not unhandled afterwards. */
  sent(answer: PromiseLike<unknown>): void {
    this.#running.add(answer)
    answer.then(
      () => {
        this.#running.delete(answer)
        if (this.#status === 'failed') this.#status = 'open'
      },
      (error: unknown) => {
        this.#running.delete(answer)
        // A statement may raise any code and any text, also those of a lost connection: ROLLBACK tells.
        if (endsConnection(error)) this.#status = 'broken'
        else if (sqlState(error) !== undefined) this.#status = 'failed'
      },
    )
  }

  /** Refuses or sends a statement, where the handler may get a promise of ours for it. */
  statement<T>(text: string | undefined, send: () => PromiseLike<T>): PromiseLike<T> {
    const refusal = this.refusal(text)
    if (refusal !== undefined) return this.refuse(refusal, text)
    const answer = send()
    this.sent(answer)
    return answer
  }

  /** Runs a nested transaction of the handler. Rolled back to its savepoint, the transaction is as it was before. */
  async nested<T>(run: () => PromiseLike<T>): Promise<T> {
    const before = this.#status
    try {
      return await this.gate.savepoints.within(run)
    } catch (error) {
      if (this.#status === 'failed') this.#status = before
      throw error
    }
  }
}
