/** A message of the outbox on its way to its destination. */
export interface OutgoingMessage {
  /** Receivers recognize copies by it. */
  readonly id: string
  /** Messages of one key keep their order. */
  readonly key?: string | undefined
  /** The CloudEvents source: the consumer whose handler has sent it. */
  readonly source: string
  /** The CloudEvents type. */
  readonly type: string
  readonly contentType: string
  /** Those that the handler gave. */
  readonly headers: Readonly<Record<string, string>>
  readonly payload: Uint8Array
}

/**
 * The answer of a destination for one message: `undefined` if its broker has confirmed it.
 *
 * - `refused`: the broker has decided against this message, which counts an attempt.
 * - `unknown`: the broker may or may not have it, as after a timeout.
 * - `down`: the broker takes nothing now, as without a connection, rights or a queue.
 *
 * After `unknown` and `down` the relay tries other messages: if one of them is confirmed, the failure is the message's and
 * counts an attempt, otherwise the destination is down and nothing is counted.
 */
export type Confirmation =
  | { readonly refused: unknown; readonly unknown?: undefined; readonly down?: undefined }
  | { readonly unknown: unknown; readonly refused?: undefined; readonly down?: undefined }
  | { readonly down: unknown; readonly refused?: undefined; readonly unknown?: undefined }
  | undefined

/** Where a relay publishes messages, made by the adapter of a broker. */
export interface Destination {
  /** Most messages of one call. */
  readonly batch: number
  /**
   * The messages of one call may share a key: they leave in order, and none of them behind one that failed. Left out: a
   * call has at most one message of each key.
   */
  readonly keepsOrder?: boolean | undefined
  /**
   * Publishes messages and waits for the broker. Answers for each message, in order. A rejection is the answer `down` for
   * all of them. What was not confirmed in a call of several messages is published again by itself.
   *
   * @param signal - Aborted when nobody waits for the answer any more.
   */
  publish(
    messages: readonly OutgoingMessage[],
    signal: AbortSignal,
  ): Promise<readonly Confirmation[]>
  /** Ends what the destination itself has opened. */
  close?(): Promise<void>
}
