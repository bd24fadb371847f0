/** A message that a handler sends with its commit. */
export interface OutboxMessage {
  /** Name of the destination, as the relay knows it: 1–100 printable ASCII characters. */
  readonly to: string
  /**
   * Messages of one key to one destination leave in the order of their commits: well-formed text of 1–1024 bytes. Default:
   * none, so the message leaves in any order.
   */
  readonly key?: string | undefined
  /**
   * Bytes leave as they are, and so does a text if the header `content-type` says that it is no JSON, such as `text/plain`.
   * Anything else leaves as JSON, also a text. With its headers at most 1 MiB.
   */
  readonly payload: unknown
  /** Leave as they are. Default: none. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The CloudEvents type. Default: the name of the destination. */
  readonly type?: string | undefined
  /** Milliseconds until the message may leave, at most a year. It then has no order. Default: 0. */
  readonly delayMs?: number | undefined
  /**
   * Identity of the message, 1–128 printable ASCII characters. Set it if a handler may send its messages in another order
   * when it runs again. Default: made of the event and of how many messages its run has sent before.
   */
  readonly id?: string | undefined
}

/** Collects what a handler sends. */
export interface Outbox {
  /**
   * Collects a message. It is written with the commit of the run, and nothing is sent if the run fails. What is sent while a
   * savepoint or a nested transaction is open goes with it if it is rolled back.
   *
   * @throws OutboxError if the message cannot be sent as it is, or the run is over.
   * @throws ConfigurationError if the guard has no inbox that stores messages.
   */
  send(message: OutboxMessage): void
}

/** A message that was collected and is to be stored. Its texts, but not its key, are printable ASCII. */
export interface CollectedMessage {
  readonly id: string
  readonly to: string
  readonly key: string | undefined
  /** The CloudEvents type. */
  readonly type: string
  /** The CloudEvents source: the consumer whose handler has sent it. */
  readonly source: string
  /** Id of the event whose run has sent it, for operators. Undefined: a run of several events, or none. */
  readonly event?: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly isJson: boolean
  readonly payload: Uint8Array
  readonly delayMs: number
  /** Payload and headers are sealed, and are stored like that. */
  readonly sealed?: true | undefined
}
