import type { ProcessUsage } from './process-usage.ts'

/** What the handler of the worker does with an event, beside writing its effect. */
export type Deed =
  /** Ends the process while its transaction is open, in whatever process it runs. */
  | 'poison'
  /** Throws in its first attempt. */
  | 'fail-once'
  /** Throws in every attempt. */
  | 'fail-always'
  /** Throws a FatalError until `mended` has a row for it. */
  | 'fatal-until-mended'
  /** Announces that it holds its transaction, goes on when it is told to, and writes once more. */
  | 'stall'
  /** Ends its own connection in every attempt; the process lives. */
  | 'break-connection'
  /** Calls `fill_disk()`, which a test may let raise 53100. */
  | 'fill-disk'
  /** In its first attempt: what a client library may take for a mistake of its own, or for nothing at all. */
  | 'throw-type-error'
  | 'throw-unretriable'
  | 'throw-undefined'
  /** In its first attempt it throws before it has made a promise. */
  | 'throw-at-once'
  /** In its first attempt it never ends, whatever its signal says. */
  | 'never-end'

export interface Order {
  readonly id: string
  readonly deed?: Deed | undefined
  /** Orders of one lane run in the order in which they were sent, where a broker has such a thing. */
  readonly lane?: string | undefined
  /** The handler takes at least so long, ms. */
  readonly takesMs?: number | undefined
  /** It is charged to this account, which has a row in `balances`. */
  readonly charge?: { readonly account: number; readonly cents: number } | undefined
}

/** Where a worker ends itself with SIGKILL, once, for the event that it is armed for. */
export type CrashPoint =
  /** A delivery has come; nobody was asked about it. */
  | 'before-claim'
  /** The lease is taken, if there are leases; the inbox was not asked. */
  | 'before-begin'
  | 'in-transaction'
  /** With leases only: everything is committed, the lease store was not told. */
  | 'before-complete'
  /** The guard has ended with it; the adapter has not heard of it. */
  | 'before-ack'
  /** Its failure is stored; the adapter has not heard of it. */
  | 'before-defer'
  /** It is buried; nobody has published it. */
  | 'before-dead-letter'
  /** The broker has confirmed the dead letter; that is not recorded. */
  | 'after-dead-letter'
  /** That is recorded; the original is the broker's still. */
  | 'before-release'
  | Word

/** What a client has written of it; the kernel has not got it. */
export type Word =
  | 'ack-on-wire'
  | 'defer-on-wire'
  /** A delayed copy is confirmed; this is the ack of the original. */
  | 'release-on-wire'
  | 'dead-letter-on-wire'

/** Where a worker's deliveries come from: a queue of the broker `kind`, which adds its own fields, or the test. */
export interface Source {
  /** A name of the registry of brokers, or `manual`: the test sends deliveries over IPC. */
  readonly kind: string
}

export interface WorkerConfig {
  readonly name: string
  readonly databaseUrl: string
  readonly source: Source
  readonly transaction: 'each' | 'batch'
  /** A line is appended for every run of the handler, before anything else: SIGKILL loses no line. */
  readonly runsFile: string
  /** Of a Redis on this machine: with leases beside the inbox. */
  readonly redisPort?: number | undefined
  /** How long Redis may take, ms; long by default, so that a busy machine is no Redis that is down. */
  readonly redisBudgetMs?: number | undefined
  /** No deferral is longer, ms: a test need not wait for what a killed worker deferred. */
  readonly longestDeferMs?: number | undefined
  /** Default: `orders`. */
  readonly consumer?: string | undefined
  /** What makes two messages the same event: the id of their order, or where they stand. Default: the order. */
  readonly identity?: 'order' | 'position' | undefined
  readonly poolMax?: number | undefined
  readonly concurrency?: number | undefined
  readonly leaseMs?: number | undefined
  /** How long a copy waits for a twin that another worker has in hand, ms. Default: the guard's. */
  readonly claimWaitMs?: number | undefined
  readonly deadlineMs?: number | undefined
  readonly attempts?: number | undefined
  readonly retryBaseMs?: number | undefined
  readonly crash?: { readonly at: CrashPoint; readonly id: string } | undefined
  /** How wrong this worker's clock is, ms. */
  readonly clockOffsetMs?: number | undefined
  /** What `random()` answers always: a full jitter must not be nothing. */
  readonly random?: number | undefined
}

/** A delivery that the test makes itself. */
export interface ManualDelivery {
  readonly order: Order
  readonly deliveryCount: number
}

export type ToWorker =
  | { readonly kind: 'start' }
  /** Go on from the point that was announced with `reached`. */
  | { readonly kind: 'go' }
  | { readonly kind: 'deliver'; readonly deliveries: readonly ManualDelivery[] }
  /** User code takes every connection of the pool, or gives them back. */
  | { readonly kind: 'take-pool' }
  | { readonly kind: 'free-pool' }
  | { readonly kind: 'ask-health' }
  /** How often the broker has handed the message of this order to this worker. */
  | { readonly kind: 'ask-received'; readonly id: string }
  /** What the process holds on to; asked when it has nothing in hand. It forgets its own notes of orders first. */
  | { readonly kind: 'ask-usage' }
  /** Ends the consumption; the process and its guard go on. */
  | { readonly kind: 'drain' }
  | { readonly kind: 'stop' }

export interface Settled {
  readonly kind: 'ack' | 'defer' | 'dead-letter' | 'abandon'
  /** `by` of an ack, `reason` of the others. */
  readonly why: string
  readonly attempt: number
  /** The order; undefined where the worker cannot tell. */
  readonly id: string | undefined
  /** Of a deferral, from now, ms. */
  readonly waitMs?: number | undefined
  readonly error?: string | undefined
}

export type FromWorker =
  /** It stands; `start` makes it consume. */
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
