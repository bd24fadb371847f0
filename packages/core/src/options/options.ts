import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Json } from '../model/brands.ts'
import type { DecodedDelivery, Delivery, GuardEvent } from '../model/delivery.ts'
import type { WatchedGuard } from '../model/guard-reading.ts'
import type { Inbox } from '../model/inbox.ts'
import type { ApproximateDedup, LeaseStore } from '../model/lease-store.ts'
import type { Logger } from '../model/logger.ts'
import type { Outbox } from '../model/outbox.ts'
import type { Runtime } from '../model/runtime.ts'
import type { DeferCause, Settlement } from '../model/settlement.ts'
import type { Seal } from './seal.ts'

export interface HandlerContext<Tx> {
  /** The transaction that holds the event's row: write through it. `undefined` without an inbox. */
  readonly tx: Tx
  /** Aborts at the deadline, when the lease is lost, and when a drain runs out of time. */
  readonly signal: AbortSignal
  readonly deadlineAt: Date
  readonly logger: Logger
  /** Sends messages with the commit of the event. Refuses without an inbox. */
  readonly outbox: Outbox
  /**
   * Ends the run: nothing of it is committed, and the event comes back after `ms` milliseconds without an attempt. At most
   * `maxDefers` times in the life of an event; then it counts as a failed attempt. Throws, so nothing after it runs; a
   * handler that catches what is thrown is rolled back all the same. A value that is not a number from 0 up means the
   * back-off of a first retry. At most a day. The handler of `createBatchGuard` defers all of its events.
   *
   * @example
   * ```ts
   * const response = await fetch(url, { signal })
   * if (response.status === 429) defer(1_000 * Number(response.headers.get('retry-after')))
   * ```
   */
  readonly defer: (ms: number) => never
  /**
   * Like `defer`, and pauses the consumer for that time: in this process at once, and in the others within seconds if the
   * inbox is in PostgreSQL. Afterwards a single event asks whether the pause is over. For a supplier that refuses everyone.
   */
  readonly pauseFor: (ms: number) => never
}

/**
 * What it returns is stored as JSON of at most 64 KiB and handed to `afterCommit`. A value that is not plain JSON, such
 * as the result of a driver, is ignored with one warning. With `afterCommit` such a value fails the attempt.
 */
export type Handler<Payload, Tx = undefined, Result = unknown> = (
  event: GuardEvent<Payload>,
  context: HandlerContext<Tx>,
) => Result

/** What it returns is ignored. */
export type BatchHandler<Payload, Tx> = (
  events: readonly GuardEvent<Payload>[],
  context: HandlerContext<Tx>,
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler that returns nothing is the usual one
) => void | Promise<unknown>

/** What else `afterCommit` is told. */
export interface AfterCommitInfo {
  /** The event was committed by an earlier delivery, or by an earlier copy in the same call. */
  readonly duplicate: boolean
}

/** Finds something in a delivery: its key, tenant or ordering key. A number must be a safe integer. */
export type Resolver<Payload = unknown, Found = string | number | bigint> = (
  delivery: DecodedDelivery<Payload>,
) => Found | undefined

/** One record per delivery, and per run of a parked event, after its settlement is known. */
export interface OutcomeRecord {
  readonly consumer: string
  readonly source: Delivery['source']
  /** Name of the event in every store, in log lines and in dead letters; none before the event is identified. */
  readonly eventId?: string | undefined
  /** Of a guard with `on`: the type of the message, `_OTHER` for one that is not there; none before it was read. */
  readonly type?: string | undefined
  /** HMAC of the key; the key itself never leaves the guard. */
  readonly keyHash?: string | undefined
  readonly attempt: number
  readonly settlement: Settlement
  /** Why the delivery was deferred or abandoned; none for other settlements. */
  readonly cause?: DeferCause | undefined
  /** The event was dead before this delivery: do not count its death again. */
  readonly repeated?: boolean | undefined
  /** The event ran from the store; no broker waits for this settlement. */
  readonly parked?: boolean | undefined
  /** Milliseconds since the message was produced, by the producer's clock; none where the broker does not say. */
  readonly messageAgeMs?: number | undefined
  /** The broker says that it may have delivered the message before. */
  readonly redelivered?: boolean | undefined
  /** Milliseconds until the stores gave the event to this run: the lease, and BEGIN with the row. None if they did not. */
  readonly claimMs?: number | undefined
  /** Milliseconds in the handler; none when it did not run. */
  readonly handlerMs?: number | undefined
  /** Milliseconds until COMMIT was answered; none when it was not sent. */
  readonly commitMs?: number | undefined
  /** Milliseconds from the delivery to its settlement. */
  readonly totalMs: number
}

/** The hook for metrics. A plain function is one. */
export interface Observer {
  (record: OutcomeRecord): void
  /**
   * Called once for each guard, when it is made. The guard calls the returned function when it is closed.
   * `meterObserver()` of `@onceward/otel` reads its gauges this way.
   */
  readonly watch?: ((guard: WatchedGuard) => () => void) | undefined
}

/**
 * The payload of a message before it is split: what the user's `decode` makes of it. Without one only the user knows its
 * shape.
 */
// biome-ignore lint/suspicious/noExplicitAny: `unknown` would ask for a cast in every `split`
export type WholePayload<Decoded> = unknown extends Decoded ? any : NoInfer<Decoded>

/** Options of every guard. docs/configuration.md has them as a table, with reasons. */
export interface CommonOptions<Payload, Decoded> {
  /**
   * Name of the logical consumer: 1–128 of `A–Z a–z 0–9 . _ : -`. Required. Part of the identity of every event: two
   * consumers of one event each get its effect, and a renamed consumer has seen nothing yet.
   */
  readonly consumer: string
  /**
   * Turns the body into a value. Default: JSON in UTF-8, and null for an empty body. If it throws, the message is
   * read again with back-off, and dead-lettered when `retry.attempts` reads have failed. An `InvalidPayloadError`, a
   * `SyntaxError` or a `FatalError` dead-letters it at once.
   */
  readonly decode?:
    | ((body: Uint8Array, delivery: Delivery) => Decoded | Promise<Decoded>)
    | undefined
  /**
   * Most bytes of a body after its content encoding (`gzip`, `deflate`, `br`) was removed; a larger one is dead-lettered.
   * Default: 16 MiB. 0: bodies are never inflated, and `decode` gets them as they came.
   */
  readonly maxInflatedBytes?: number | undefined
  /** Messages for which it returns true are acknowledged without a record, before schema and key. Default: none. */
  readonly skip?: ((delivery: DecodedDelivery<NoInfer<Decoded>>) => boolean) | undefined
  /**
   * Finds the events in a message that holds several, at most 10,000. Each item is an event of its own, with its own key,
   * fingerprint, attempts and dead letter, whose body is the item as JSON. `schema`, `eventKey` and the other resolvers
   * get the item. Items of one ordering key run in order. The message is acknowledged when each item is done or recorded
   * as dead, else it comes back at the earliest due time, and the items that are done are duplicates then. An empty array
   * is skipped. Default: a message is one event.
   *
   * @example
   * ```ts
   * import { createGuard } from '@onceward/core'
   * import { pgInbox } from '@onceward/postgres/pg'
   *
   * const uploads = createGuard(
   *   {
   *     consumer: 'uploads',
   *     inbox: pgInbox(pool),
   *     split: ({ payload }) => payload.Records,
   *     schema: OrderPlaced,
   *     eventKey: ({ payload }) => payload.orderId,
   *   },
   *   async ({ payload }, { tx }) => {
   *     await tx.query('insert into uploads (id) values ($1)', [payload.orderId])
   *   },
   * )
   * ```
   */
  readonly split?:
    | ((
        delivery: DecodedDelivery<WholePayload<Decoded>>,
      ) => readonly unknown[] | Promise<readonly unknown[]>)
    | undefined
  /**
   * Checks and types `event.payload`: any Standard Schema, synchronous or not. A payload that does not match is
   * dead-lettered. Default: none, so the payload is the value that `decode` returned.
   */
  readonly schema?: StandardSchemaV1<unknown, Payload> | undefined
  /**
   * Identity of the event as its producer means it: a well-formed string or a safe integer, 1–1024 bytes. The first
   * resolver that finds one wins. Default:
   * `[cloudEventKey(), idempotencyKeyHeader(), snsKey(), eventBridgeKey(), recordKey()]`.
   * Broker ids are not a default, because a copy that the producer sends has a new id. Envelopes that know the key of their
   * messages (`decode: unwrapMassTransit()`, `decode: debezium()`) are tried first.
   */
  readonly eventKey?: Resolver<NoInfer<Payload>> | readonly Resolver<NoInfer<Payload>>[] | undefined
  /** Keys are unique per tenant. If it is set and finds no tenant, the key counts as missing. Default: no tenants. */
  readonly tenant?: Resolver<NoInfer<Payload>> | undefined
  /**
   * Events with the same ordering key run one after the other, in delivery order. On Kafka and in FIFO queues later
   * events wait for a deferred one, on RabbitMQ they do not. Default: the broker's own (record key, message group).
   */
  readonly orderingKey?: Resolver<NoInfer<Payload>> | undefined
  /**
   * What distinguishes a duplicate from a conflict (another payload under a used key). Default: `'body'`, the decoded body before
   * the schema, and of an envelope what its producer wrote, as canonical JSON (RFC 8785). Set a function if producers stamp each send. `'none'` compares nothing.
   */
  readonly fingerprint?: 'body' | 'none' | ((payload: NoInfer<Payload>) => unknown) | undefined
  /**
   * Handlers, and with them transactions, that run at the same time. Default: 8. If you set more
   * than the pool can carry, the guard does not start; the default is lowered.
   */
  readonly concurrency?: number | undefined
  /**
   * How long a done event is remembered, milliseconds. Default: 1 296 000 000 (15 days), a day more than SQS can keep a
   * message. It must be longer than the broker can take to bring a message back.
   */
  readonly dedupWindowMs?: number | undefined
  /**
   * Time limit of a claim, milliseconds on the store's clock; renewed at a third of it. Default: 30 000.
   * After a crash no other process takes the event over sooner.
   */
  readonly leaseMs?: number | undefined
  /**
   * Longest run of a handler, milliseconds. After it the signal aborts, the transaction is rolled back, `tx` refuses, and
   * the attempt has failed. Default: 60 000. Always finite: a hung call would hold a connection without end.
   * With `leases` alone nothing stops a handler that ignores its signal: its next attempt may run beside it.
   */
  readonly deadlineMs?: number | undefined
  /**
   * Longest wait for an event that another process is running, milliseconds. Then the delivery is deferred. Default:
   * 250, too short for waiting copies to exhaust the pool.
   */
  readonly claimWaitMs?: number | undefined
  /**
   * Bounds how many events of one group (a tenant, an account) run at the same time in this process, so that a flood of one
   * does not take every slot. Groups that wait take turns. It says nothing about order, which is that of `orderingKey`.
   * `by` names the group; what has none is not bounded. Up to eight times `concurrency` events are in hand then, and those
   * that wait for their group hold no slot. Not beside `transaction: 'batch'`. Default: no bound.
   */
  readonly groupConcurrency?:
    | {
        readonly by: (
          event: Pick<
            GuardEvent<NoInfer<Payload>>,
            'payload' | 'headers' | 'tenant' | 'key' | 'type'
          >,
        ) => string | undefined
        /** Events of one group that run at the same time. */
        readonly max: number
      }
    | undefined
  /** How often a handler may defer one event (`context.defer`) before that counts as a failed attempt. Default: 100. */
  readonly maxDefers?: number | undefined
  /** Waits between half of `baseMs` × 2ⁿ and the whole, never more than `maxMs`. Defaults: 10 attempts, 1 000 and 300 000 ms. */
  readonly retry?:
    | {
        /** Runs of the handler, crashes included, before the event is dead-lettered. */
        readonly attempts?: number | undefined
        /** Longest wait after the first failure, milliseconds. */
        readonly baseMs?: number | undefined
        /** Longest wait between two attempts, milliseconds, `RetryableError.afterMs` included. */
        readonly maxMs?: number | undefined
      }
    | undefined
  /**
   * Errors of other libraries that retries cannot cure: dead-lettered at once. Default: none. `FatalError`,
   * `InvalidPayloadError` and `MissingKeyError` always are.
   */
  readonly isFatal?: ((error: unknown) => boolean) | undefined
  /** For a message without a key: dead-letter it (default), use its position as key, or run it without a guard. */
  readonly onMissingKey?: 'dead-letter' | 'position' | 'unguarded' | undefined
  /** For another payload under a used key: dead-letter it (default), acknowledge it, or (in tests) retry it. */
  readonly onConflict?: 'dead-letter' | 'ack' | 'throw' | undefined
  /**
   * Called after the commit and before the message is acknowledged, with the handler's result. At least once: after a
   * crash in between, the redelivery is a duplicate and calls it with the stored result. Default: nothing.
   *
   * If it throws, or gives no answer within `deadlineMs`, the delivery is deferred with the cause `after-commit-failed`.
   * The event does not run again. There is no last attempt, so catch what a retry cannot cure.
   *
   * @example
   * ```ts
   * import { createGuard } from '@onceward/core'
   * import { pgInbox } from '@onceward/postgres/pg'
   *
   * const quotes = createGuard(
   *   {
   *     consumer: 'quotes',
   *     inbox: pgInbox(pool),
   *     afterCommit: async (result, { headers }) => {
   *       await fetch(`${headers['reply-to']}`, { method: 'POST', body: JSON.stringify(result) })
   *     },
   *   },
   *   async (_event, { tx }) => {
   *     const { rows } = await tx.query('insert into quotes default values returning id')
   *     return { quoteId: rows[0].id }
   *   },
   * )
   * ```
   */
  readonly afterCommit?:
    | ((
        result: unknown,
        event: GuardEvent<NoInfer<Payload>>,
        info: AfterCommitInfo,
      ) => void | Promise<void>)
    | undefined
  /**
   * Encrypts what is stored of messages: dead letters and refused messages, parked events, results and messages of the
   * outbox. Default: they are stored as they are. Handlers, `afterCommit` and the broker's dead-letter place get plain values.
   */
  readonly seal?: Seal | undefined
  /** The hook for metrics: called once per delivery, when its settlement is known. If it throws, the error is logged. */
  readonly observe?: Observer | undefined
  /**
   * A pino instance or `console`. Default: on a terminal, lines for a person; elsewhere, and with `NODE_ENV=production`, a
   * line of JSON each, in the format of pino.
   */
  readonly logger?: Logger | undefined
  /**
   * Adds the key of the event as `key` to log lines of onceward and of handlers. Default: false, because keys are often
   * order numbers or e-mail addresses; lines then have a hash of it, `keyHash`, and the id of the event.
   */
  readonly logKeys?: boolean | undefined
  /** @internal Time, randomness and ids, for tests: the declarations of the package leave it out. */
  readonly runtime?: Runtime | undefined
}

/** Effects in Postgres: exactly one committed effect per event. */
export interface InboxGuardOptions<Payload, Tx, Decoded = unknown>
  extends CommonOptions<Payload, Decoded> {
  /** The durable guard: `pgInbox(pool)`, that of an ORM or of another store, or `memoryInbox()` in unit tests. */
  readonly inbox: Inbox<Tx>
  /** A fast path that answers duplicates and live claims without Postgres. Postgres still decides. Default: none. */
  readonly leases?: LeaseStore | undefined
  readonly dedup?: undefined
  /** One transaction per event (default), or one for the received events, which is bisected when one of them fails. */
  readonly transaction?: 'each' | 'batch' | undefined
  readonly onTakeover?: undefined
  readonly onStoreDown?: undefined
}

/** `done`: the effect exists, its result may be stored. `retry`: run the handler. `dead-letter`: a person decides. */
export type Takeover =
  | { readonly kind: 'done'; readonly result?: Json | undefined }
  | { readonly kind: 'retry' }
  | { readonly kind: 'dead-letter' }

/** Effects outside Postgres. */
export interface LeaseGuardOptions<Payload, Decoded = unknown>
  extends CommonOptions<Payload, Decoded> {
  readonly inbox?: undefined
  /** One owner at a time; duplicates get the stored result. Effects outside Postgres are not exactly once. */
  readonly leases: LeaseStore
  readonly dedup?: undefined
  readonly transaction?: undefined
  /**
   * What to do when an earlier attempt may have had its effect: run again, dead-letter, or call a function that looks
   * the effect up. Required, because only you can know.
   */
  readonly onTakeover:
    | 'retry'
    | 'dead-letter'
    | ((
        event: GuardEvent<NoInfer<Payload>>,
        context: HandlerContext<undefined>,
      ) => Takeover | Promise<Takeover>)
  /** Wait for the lease store (default), or run without it, so that duplicates have effects too. */
  readonly onStoreDown?: 'wait' | 'unguarded' | undefined
}

/** Telemetry, where an event that is counted twice or lost does no harm. */
export interface ApproximateGuardOptions<Payload, Decoded = unknown>
  extends CommonOptions<Payload, Decoded> {
  readonly inbox?: undefined
  readonly leases?: undefined
  /** `approximateDedup({ redis, windowMs })` of `@onceward/redis`. A false positive loses an event. */
  readonly dedup: ApproximateDedup
  readonly transaction?: undefined
  readonly onTakeover?: undefined
  /** Wait for Redis (default), or run without it, so that copies count too. */
  readonly onStoreDown?: 'wait' | 'unguarded' | undefined
}

/** Options of `createGuard`. */
export type GuardOptions<Payload, Tx = undefined, Decoded = unknown> =
  | InboxGuardOptions<Payload, Tx, Decoded>
  | LeaseGuardOptions<Payload, Decoded>
  | ApproximateGuardOptions<Payload, Decoded>

/** How a guard with `on` treats the messages of one type. What is left out, the guard's own options say. */
export interface Route<Payload, Call> {
  /** Checks and types the payload of this type: any Standard Schema. */
  readonly schema?: StandardSchemaV1<unknown, Payload> | undefined
  readonly handler: Call
  readonly eventKey?: Resolver<NoInfer<Payload>> | readonly Resolver<NoInfer<Payload>>[] | undefined
  readonly retry?: CommonOptions<Payload, unknown>['retry']
  /** A transaction that several types share has the shortest of their deadlines. */
  readonly deadlineMs?: number | undefined
}

/** Options of a guard that calls a handler by the type of the message. */
export interface RoutingOptions<Decoded> {
  /**
   * Finds the type of a message. The first resolver that finds one wins. It is read after `decode`, `skip` and `split`, and
   * it is no part of the identity of the event. Default: the `type` of CloudEvents, the header `type`, the `detail-type` of
   * EventBridge, the property `type` of AMQP, the message type of MassTransit, and the `pattern` of NestJS.
   */
  readonly type?:
    | Resolver<WholePayload<Decoded>>
    | readonly Resolver<WholePayload<Decoded>>[]
    | undefined
  /**
   * For a message of a type that is not in `on`, or of none: dead-letter it (default), acknowledge it with a warning for each
   * type, or acknowledge it in silence, as `skip` does.
   */
  readonly unknown?: 'dead-letter' | 'ack' | 'skip' | undefined
}

type WithoutSchema<Options> = Options extends unknown
  ? Omit<Options, 'schema'> & { readonly schema?: undefined }
  : never

/**
 * Options of `createGuard` with a handler for each type of message, in place of one handler for all.
 *
 * @typeParam Payloads - The payload of each type, as its schema says.
 */
export type RouterOptions<Payloads, Tx = undefined, Decoded = unknown> = WithoutSchema<
  GuardOptions<Payloads[keyof Payloads], Tx, Decoded>
> &
  RoutingOptions<Decoded> & {
    readonly on: {
      readonly [Name in keyof Payloads]: Route<Payloads[Name], Handler<Payloads[Name], Tx>>
    }
  }

/** Options of `createBatchGuard` with a handler for each type of message. */
export type BatchRouterOptions<Payloads, Tx, Decoded = unknown> = Omit<
  InboxGuardOptions<Payloads[keyof Payloads], Tx, Decoded>,
  'transaction' | 'schema'
> &
  RoutingOptions<Decoded> & {
    readonly schema?: undefined
    readonly on: {
      readonly [Name in keyof Payloads]: Route<Payloads[Name], BatchHandler<Payloads[Name], Tx>>
    }
  }

/** The values of the options that have a default. */
export interface Defaults {
  readonly concurrency: number
  readonly dedupWindowMs: number
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly claimWaitMs: number
  readonly maxDefers: number
  readonly retry: { readonly attempts: number; readonly baseMs: number; readonly maxMs: number }
  readonly maxInflatedBytes: number
  readonly fingerprint: 'body'
  readonly onMissingKey: 'dead-letter'
  readonly onConflict: 'dead-letter'
  readonly transaction: 'each'
  readonly onStoreDown: 'wait'
  readonly unknown: 'dead-letter'
}

type Common = CommonOptions<unknown, unknown>

/** Every option as a document or an error names it: nested ones as `retry.attempts`. */
export type GuardOptionName =
  | Exclude<
      keyof InboxGuardOptions<unknown, unknown> | keyof LeaseGuardOptions<unknown>,
      keyof Pick<Common, 'retry'> | 'runtime'
    >
  | keyof RoutingOptions<unknown>
  | 'on'
  | `retry.${keyof NonNullable<Common['retry']>}`
