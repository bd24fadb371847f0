import type { OncewardError, TransactionStatus } from '@onceward/core'
import type { QueryAnswer } from './driver.ts'

/** What the last of several statements answered, with the server's word for what it did. */
export interface SendAnswer extends QueryAnswer {
  /** `COMMIT`, `ROLLBACK`, …; undefined where the client does not tell. */
  readonly command: string | undefined
}

/** A connection taken from the pool for one business transaction: what the two clients do differently. */
export interface HeldConnection<Tx> {
  /** The handler's handle. */
  readonly tx: Tx
  /** As of the last answer of the server. */
  status(): TransactionStatus
  /** `tx` takes no new statements; the first refusal stays. */
  close(refusal: () => OncewardError): void
  /** `tx` begins no statement any more, those that wait for others included; the first error stays. */
  revoke(error: OncewardError): void
  /**
   * Sends statements of our own, in one flush where the client can; they queue behind those of the handler that are
   * on their way. Rejects with the client's own error.
   *
   * @param reads - `no-rows` is cheaper; the rows of the answer mean nothing then.
   */
  send(texts: readonly string[], reads?: 'rows' | 'no-rows'): Promise<SendAnswer>
  /** Whether a statement is on its way. */
  isBusy(): boolean
  /** Resolves when none is. Never rejects. */
  idle(): Promise<void>
  /** Asks the server to cancel what runs, over another connection; waits for that, but not long. Never rejects. */
  cancel(): Promise<void>
  /** Whether the server said that the last COMMIT was not replicated as demanded. */
  isUnreplicated(): boolean
  /** Gives the connection back: no transaction is open on it. */
  release(): void
  /** Ends the connection, whatever it is doing. */
  destroy(): void
}
