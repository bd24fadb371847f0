import { type OncewardError, RetryableError } from '@onceward/core'
import type { OnLate } from '../driver/held-connection.ts'
import { SAVEPOINT_WORD, Savepoints } from './savepoints.ts'
import { mayChangeSettings } from './setting-changes.ts'
import { transactionControls } from './transaction-control.ts'

/** Decides before every statement whether a handle still works. The first error of each kind stays. */
export class HandleGate {
  #closed: (() => OncewardError) | undefined
  #late: OnLate | undefined
  /** The report of the last statement that came too late. */
  #reported: Promise<unknown> | undefined
  #revoked: OncewardError | undefined
  #hasSent = false
  #hasChangedSettings = false
  #savepoints: Savepoints | undefined

  /**
   * From now on new statements are refused; queued statements still run. Every transaction ends this way, and an error
   * costs as much as a statement, so the error is made only when a statement is refused.
   *
   * @param late - Called with each statement that is refused then.
   */
  close(refusal: () => OncewardError, late?: OnLate): void {
    if (this.#closed !== undefined) return
    this.#closed = refusal
    this.#late = late
  }

  /** From now on no statement starts, including queued ones. */
  revoke(error: OncewardError): void {
    this.#revoked ??= error
  }

  get revoked(): OncewardError | undefined {
    return this.#revoked
  }

  /** Whether a handler has sent a statement. */
  get hasSent(): boolean {
    return this.#hasSent
  }

  /** Whether a statement may have changed a setting of the session. */
  get hasChangedSettings(): boolean {
    return this.#hasChangedSettings
  }

  /** Of the handlers. Made for the first one, because most handlers have none. */
  get savepoints(): Savepoints {
    this.#savepoints ??= new Savepoints()
    return this.#savepoints
  }

  /**
   * A statement is sent. An unknown text may change settings.
   *
   * @param mapped - With savepoints in place of the transactions that the handler begins.
   */
  sent(text: string | undefined, mapped: string | undefined = text): void {
    this.#hasSent = true
    this.#hasChangedSettings ||= text === undefined || mayChangeSettings(text)
    if (mapped !== undefined && SAVEPOINT_WORD.test(mapped)) this.savepoints.sent(mapped)
  }

  /** Why a new statement is refused. Undefined if it may run. Called once for each statement, or more often. */
  refusal(text?: string): OncewardError | undefined {
    if (this.#revoked !== undefined || this.#closed === undefined) return this.#revoked
    this.#reported = this.#late?.(text)
    return this.#closed()
  }

  /**
   * Calls back when the refusal of a statement may be told: a refusal that nobody handles ends the process, and a statement
   * that came too late must be on record by then.
   */
  whenReported(refuse: () => void): void {
    if (this.#reported === undefined) refuse()
    else void this.#reported.then(refuse, refuse)
  }
}

/** Why a text is refused on a handle that does not map transaction control. */
export function refusedControls(text: string): OncewardError | undefined {
  const [control] = transactionControls(text)
  return control === undefined ? undefined : refusedControl(control.words)
}

/** @param words - That begin the statement. */
export function refusedControl(words: string): OncewardError {
  return new RetryableError(
    `The handler may not send \`${words}\`: onceward begins and ends this transaction, with the event's row in it. Use a savepoint, or throw to roll back.`,
  )
}
