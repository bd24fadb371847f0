/** Where a delivery came from. */
export interface DeliverySource {
  /** `kafka`, `sqs`, `amqp`, … */
  readonly broker: string
  /** Queue name or URL; the topic on Kafka. */
  readonly queue: string
  /** Transport coordinates (`partition/offset`, SQS message id), where the broker has any. */
  readonly position?: string | undefined
  /**
   * Tells messages apart that stood at one position in different logs: the cluster, and what changes when a topic is
   * made anew. Part of the identity that `position()` makes, and of nothing else.
   */
  readonly incarnation?: string | undefined
}

/** One handing-over of a message by a broker, as an adapter gives it to the guard. */
export interface Delivery {
  readonly body: Uint8Array
  /** Lower-case names; the last of a repeated header; text only. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly source: DeliverySource
  readonly contentType?: string | undefined
  /** The broker's or the publisher's id of the message; never an identity by itself, see `messageId()`. */
  readonly messageId?: string | undefined
  /** Deliveries with an equal ordering key run in delivery order: record key, message group. */
  readonly orderingKey?: string | undefined
  readonly producedAt?: Date | undefined
  /** How often the broker believes it has delivered this message, this time included. A hint. */
  readonly deliveryCount?: number | undefined
  /** The broker says it may have delivered this message before. */
  readonly redelivered?: boolean | undefined
  /** The client's own message object. */
  readonly raw?: unknown
}

/** A delivery whose body was decoded, before the key is known. */
export interface DecodedDelivery<Payload> extends Delivery {
  readonly payload: Payload
}

/** What a handler gets. */
export interface GuardEvent<Payload> extends DecodedDelivery<Payload> {
  readonly key: string
  readonly tenant?: string | undefined
  /** 1-based; crashes count. */
  readonly attempt: number
  /** Stable over all attempts and processes: pass it on to services outside the transaction. */
  readonly idempotencyKey: string
}
