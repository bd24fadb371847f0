import type { Logger, OncewardError } from '@onceward/core'
import type { LATE } from '@onceward/core/adapter'
import type { Savepoint, TransactionStatus } from '@onceward/core/ports'
import type { QueryAnswer } from './driver.ts'

/** The answer of the last of several statements, with its command tag. */
export interface SendAnswer extends QueryAnswer {
  /** `COMMIT`, `ROLLBACK`, …; undefined if the client does not report it. */
  readonly command: string | undefined
}

/** Takes a statement that came too late; its text is undefined if it is not known. Resolves when that is on record. */
export type OnLate = (text: string | undefined) => Promise<unknown>

/** A connection taken from the pool for one business transaction. Each client library implements it. */
export interface HeldConnection<Tx> {
  /** The handler's handle. */
  readonly tx: Tx
  /** The connection goes back with the end of its transaction, so nothing can be sent behind a ROLLBACK. */
  readonly endsWithTransaction?: boolean
  /** Where statements are reported that are refused and that nobody awaits. */
  logTo(logger: Logger): void
  /**
   * A handler has returned or thrown.
   *
   * @param thrown - Undefined if it has returned.
   * @returns Why its run has failed although it may have returned.
   */
  ended(thrown: unknown): OncewardError | undefined
  /** As `ended` for a handler that has returned, with what has failed since. */
  mistake(): OncewardError | undefined
  /** Status after the last answer of the server. */
  status(): TransactionStatus
  /** SQLSTATE of the error with which the server ended the connection; undefined if the client does not report it. */
  endCode(): string | undefined
  /** Whether the server takes our texts for UTF-8, which they are. A handler may have changed that. */
  isUtf8(): boolean
  /** Whether `tx` has sent a statement that may have changed a setting or the role of the session. */
  hasChangedSettings(): boolean
  /** The innermost savepoint that the handlers have open. */
  savepoint(): Savepoint | undefined
  /** Whether a handler has sent a statement. */
  hasSent(): boolean
  /**
   * From now on `tx` refuses new statements. A second call changes nothing.
   *
   * @param late - Called with each that is refused then, in place of a line in the log.
   */
  close(refusal: () => OncewardError, late?: OnLate): void
  /** From now on `tx` starts no statement, including queued ones. A second call changes nothing. */
  revoke(error: OncewardError): void
  /**
   * Sends statements of onceward, in one flush if the client can. They queue behind statements of the handler that are
   * in flight. Resolves with `LATE` if they are not answered within `limitMs`. Rejects with the client's own error.
   *
   * @param reads - `no-rows` is cheaper, and the rows of the answer are then undefined.
   */
  send(
    texts: readonly string[],
    limitMs: number,
    reads?: 'rows' | 'no-rows',
  ): Promise<SendAnswer | typeof LATE>
  /** How many statements the server has completed on this connection; undefined if the client does not report it. */
  commands(): number | undefined
  /** Whether a statement is in flight. */
  isBusy(): boolean
  /** Resolves when no statement is in flight. Never rejects. */
  idle(): Promise<void>
  /** Asks the server over another connection to cancel the running statement. Waits a short time. Never rejects. */
  cancel(): Promise<void>
  /** Whether the server reported that the last COMMIT was not replicated as `synchronous_commit` demands. */
  isUnreplicated(): boolean
  /** Returns the connection to the pool. No transaction may be open on it. */
  release(): void
  /** Closes the connection, even if a statement is running. */
  destroy(): void
}
