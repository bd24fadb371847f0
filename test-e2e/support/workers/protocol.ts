import type { ProcessUsage } from './process-usage.ts'

/** What the worker's handler does after it has written the effect of an event. */
export type Deed =
  /** Kills every process that runs it, while the transaction is open. */
  | 'poison'
  /** Throws in the first attempt. */
  | 'fail-once'
  /** Throws in every attempt. */
  | 'fail-always'
  /** Throws a FatalError until table `mended` has a row for the order. */
  | 'fatal-until-mended'
  /** Reports that its transaction is open, continues when the test says `go`, and writes once more. */
  | 'stall'
  /** Terminates its own connection in every attempt. */
  | 'break-connection'
  /** Calls `fill_disk()`, which a test may let raise 53100. */
  | 'fill-disk'
  /** In the first attempt throws what a client library may take for an error of its own, or for no error. */
  | 'throw-type-error'
  | 'throw-unretriable'
  | 'throw-undefined'
  /** In the first attempt throws synchronously. */
  | 'throw-at-once'
  /** In the first attempt never ends, and ignores its signal. */
  | 'never-end'
  /** Kills every process that decodes it. */
  | 'kill-decoder'
  /** `afterCommit` throws the first time. */
  | 'fail-reply-once'

export interface Order {
  readonly id: string
  readonly deed?: Deed | undefined
  /** Orders of one lane run in the order of sending, if the broker has ordering keys. */
  readonly lane?: string | undefined
  /** Its message has these orders in its place, if the worker splits. */
  readonly items?: readonly Order[] | undefined
  /** The handler takes at least this long, ms. */
  readonly takesMs?: number | undefined
  /** The account that is charged, a row in `balances`. */
  readonly charge?: { readonly account: number; readonly cents: number } | undefined
}

/** Where a worker kills itself with SIGKILL, for the order of its configuration. */
export type CrashPoint =
  /** The delivery was received. No store was asked. */
  | 'before-claim'
  /** The lease is taken, if there are leases. The inbox was not asked. */
  | 'before-begin'
  | 'in-transaction'
  /** With leases only: the transaction is committed. The lease store was not told. */
  | 'before-complete'
  /** The transaction is committed, and the lease store was told. `afterCommit` begins. */
  | 'before-reply'
  /** The outcome is stored. The adapter has no settlement yet. */
  | 'before-ack'
  /** The failure is stored. The adapter has no settlement yet. */
  | 'before-defer'
  /** The event is stored as dead. The dead letter is not published. */
  | 'before-dead-letter'
  /** The broker has confirmed the dead letter. That it is published is not stored. */
  | 'after-dead-letter'
  /** That the dead letter is published is stored. The original is not acknowledged. */
  | 'before-release'
  | Word

/** What a client has written and the kernel has not got yet. */
export type Word =
  | 'ack-on-wire'
  | 'defer-on-wire'
  /** The ack of the original after its delayed copy is confirmed. */
  | 'release-on-wire'
  | 'dead-letter-on-wire'

/** Where a worker's deliveries come from: a queue of the broker `kind`, which adds its own fields, or the test. */
export interface Source {
  /** A name of the registry of brokers, or `manual`: the test sends deliveries over IPC. */
  readonly kind: string
}

/** The ORMs that a worker's handler may have in place of pg. */
export type OrmName =
  | 'knex'
  | 'drizzle'
  | 'drizzle-postgres-js'
  | 'postgres-js'
  | 'prisma'
  | 'typeorm'
  | 'mikro-orm'

/** How the handler of a service of NestJS is declared. */
export const NEST_KINDS = ['@Consume', 'OncewardStrategy'] as const

export type NestKind = (typeof NEST_KINDS)[number]

export interface WorkerConfig {
  readonly name: string
  readonly databaseUrl: string
  readonly source: Source
  readonly transaction: 'each' | 'batch'
  /** The handler appends a line for every run before anything else, so that SIGKILL loses no line. */
  readonly runsFile: string
  /** The port of a Redis on this machine. If it is set, the guard has leases beside the inbox. */
  readonly redisPort?: number | undefined
  /** Default: Redis is asked by need. */
  readonly redisHold?: 'always' | undefined
  /** How long Redis may take, ms. Long by default, so that a slow Redis is not taken for one that is down. */
  readonly redisBudgetMs?: number | undefined
  /** The longest deferral, ms, so that a test need not wait for what a killed worker deferred. */
  readonly longestDeferMs?: number | undefined
  /** Default: `orders`. */
  readonly consumer?: string | undefined
  /** What makes two messages the same event: the id of the order, or the position. Default: the order. */
  readonly identity?: 'order' | 'position' | undefined
  /** The ORM in whose transaction the handler writes. Default: none, its client is that of pg. */
  readonly orm?: OrmName | undefined
  /** The consumer of a broker is a service of NestJS. Default: it has a guard of its own. */
  readonly nest?: NestKind | undefined
  readonly poolMax?: number | undefined
  readonly concurrency?: number | undefined
  readonly leaseMs?: number | undefined
  /** How long a copy waits while another worker processes the event, ms. Default: the guard's. */
  readonly claimWaitMs?: number | undefined
  readonly deadlineMs?: number | undefined
  readonly attempts?: number | undefined
  /** The guard has a `decode` of its own, which some orders kill. */
  readonly decodes?: boolean | undefined
  readonly retryBaseMs?: number | undefined
  /** The guard takes messages of several orders. */
  readonly splits?: boolean | undefined
  /** `afterCommit` writes a row for each call. */
  readonly replies?: boolean | undefined
  readonly crash?: { readonly at: CrashPoint; readonly id: string } | undefined
  /** What this worker's wall clock is off by, ms. */
  readonly clockOffsetMs?: number | undefined
  /** What `random()` always returns, so that a full jitter is not 0. */
  readonly random?: number | undefined
}

/** A delivery that the test makes. */
export interface ManualDelivery {
  readonly order: Order
  readonly deliveryCount: number
}

export type ToWorker =
  | { readonly kind: 'start' }
  /** Continue from the point that was reported with `reached`. */
  | { readonly kind: 'go' }
  | { readonly kind: 'deliver'; readonly deliveries: readonly ManualDelivery[] }
  /** User code takes every connection of the pool, or gives them back. */
  | { readonly kind: 'take-pool' }
  | { readonly kind: 'free-pool' }
  | { readonly kind: 'ask-health' }
  /** How often this worker has received the message of this order. */
  | { readonly kind: 'ask-received'; readonly id: string }
  /** What the process holds. Asked when nothing is in flight; the worker clears its own maps of orders first. */
  | { readonly kind: 'ask-usage' }
  /** Drains the consumption. The process and its guard stay open. */
  | { readonly kind: 'drain' }
  | { readonly kind: 'stop' }

export interface Settled {
  readonly kind: 'ack' | 'defer' | 'dead-letter' | 'abandon'
  /** `by` of an ack, `reason` of the other kinds. */
  readonly why: string
  readonly attempt: number
  /** The order; undefined if the worker does not know it. */
  readonly id: string | undefined
  /** Of a deferral, from now, ms. */
  readonly waitMs?: number | undefined
  readonly error?: string | undefined
}

export type FromWorker =
  /** The process is up; `start` makes it consume. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'started' }
  | { readonly kind: 'reached'; readonly what: string }
  | { readonly kind: 'settled'; readonly settled: Settled }
  | { readonly kind: 'delivered' }
  | { readonly kind: 'pool-taken' }
  | { readonly kind: 'pool-freed' }
  | { readonly kind: 'received'; readonly id: string; readonly count: number }
  | { readonly kind: 'usage'; readonly usage: ProcessUsage }
  | { readonly kind: 'drained' }
  | {
      readonly kind: 'health'
      readonly state: string
      readonly reason?: string | undefined
      readonly inFlight: number
    }
  | { readonly kind: 'log'; readonly level: string; readonly text: string }
