import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node'

/** What this package calls of a connection. Servers, credentials and reconnects are the user's. */
export type NatsClient = Pick<
  NatsConnection,
  'flush' | 'isClosed' | 'publish' | 'request' | 'status' | 'subscribe'
>

/** What JetStream says of a delivery. */
export interface NatsDeliveryInfo {
  readonly stream: string
  readonly consumer: string
  readonly deliveryCount: number
  readonly streamSequence: number
  readonly timestampNanos: number
}

/** A message of a stream: what a `JsMsg` of @nats-io/jetstream has beside its verbs. */
export interface NatsMessage {
  readonly subject: string
  readonly headers?: MsgHdrs | undefined
  readonly data: Uint8Array
  readonly info: NatsDeliveryInfo
}

/** A message with the subject to which its verbs are published. */
export interface Pulled extends NatsMessage {
  readonly reply: string
}

/** What a pull request brought. The server sent all of it after `sentAtMs`, on the monotonic clock. */
export interface Pull {
  readonly messages: readonly Pulled[]
  readonly sentAtMs: number
}

export interface PullRequest {
  readonly batch: number
  /** How long it waits for a first message. What is there then comes at once. */
  readonly expiresMs: number
}

/** What a consumer says that is not settled yet, as it is on the wire. */
export type Verb = '+ACK' | '-NAK' | '+TERM' | '+WPI' | `-NAK ${string}`

export interface OutgoingNats {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** The stream that must take it. */
  readonly stream?: string | undefined
}

/** Of the answer of `STREAM.INFO`; durations are nanoseconds. */
export interface StreamFacts {
  readonly created: string
  readonly config: {
    readonly name: string
    readonly subjects?: readonly string[]
    readonly retention: string
    readonly storage: string
    readonly discard: string
    readonly num_replicas: number
    readonly max_age: number
    readonly max_msgs: number
    readonly max_bytes: number
    readonly max_msgs_per_subject?: number
    readonly persist_mode?: string
  }
}

/** Of the answer of `CONSUMER.INFO`; durations are nanoseconds. */
export interface ConsumerFacts {
  readonly paused?: boolean
  readonly config: {
    readonly ack_policy: string
    readonly ack_wait?: number
    readonly backoff?: readonly number[]
    readonly max_deliver?: number
    readonly max_ack_pending?: number
    readonly max_batch?: number
    readonly max_expires?: number
    readonly deliver_subject?: string
    readonly headers_only?: boolean
    readonly inactive_threshold?: number
    readonly mem_storage?: boolean
    readonly filter_subject?: string
    readonly filter_subjects?: readonly string[]
    readonly priority_groups?: readonly string[]
  }
}

/** What the adapter goes by of a stream and its consumer. Changes when they are looked at again. */
export interface Terms {
  /** How soon the server gives a message to another consumer, if nothing is said about it. */
  ackWaitMs: number
  /** Bounds of a pull request. */
  mostBatch: number
  mostExpiresMs: number
  /** When the stream was created: sequences of another one of its name begin at 1 too. */
  incarnation: string | undefined
}

/** The calls to one server, each with a time limit. A call rejects with the client's error, or with one of ours. */
export interface NatsApi {
  /** How often the connection tries to come back before it closes for ever; -1 without a limit, undefined if unknown. */
  readonly mostReconnects: number | undefined
  /** Resolves when the connection is up, or with false when the time is over. */
  connected(withinMs: number): Promise<boolean>
  /** One at a time. Messages that were on their way after an earlier one ended come first. */
  pull(request: PullRequest): Promise<Pull>
  /** Publishes a verb. Nobody answers: {@link NatsApi.confirm} tells that the server has it. */
  say(reply: string, verb: Verb): void
  /** Resolves when the server has read what was said before. */
  confirm(): Promise<void>
  stream(name: string): Promise<StreamFacts>
  consumer(stream: string, name: string): Promise<ConsumerFacts>
  /** The stream that takes messages of a subject. */
  streamOf(subject: string): Promise<string | undefined>
  /** Resolves when a stream has the message. Answers false if it had one with this `Nats-Msg-Id` already. */
  publish(message: OutgoingNats): Promise<boolean>
  close(): void
}
