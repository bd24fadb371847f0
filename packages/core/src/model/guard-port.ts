import type { EpochMs } from './brands.ts'
import type { Publish } from './dead-letter.ts'
import type { Delivery, DeliverySource } from './delivery.ts'
import { ConfigurationError } from './errors.ts'
import type { PartitionAnswer, PartitionClaim } from './fence.ts'
import type { Logger } from './logger.ts'
import type { Runtime } from './runtime.ts'
import type { DeferCause, Settlement } from './settlement.ts'

/** Options of one call of `process` or `processBatch`. */
export interface ProcessOptions {
  /**
   * The caller reads `result` of the settlement. A handler's return value that is not plain JSON then fails the attempt;
   * otherwise it is ignored. Default: false.
   */
  readonly needsResult?: boolean | undefined
}

declare const TYPES: unique symbol

/**
 * The guard as its user sees it.
 *
 * @typeParam Payload - What its handler gets.
 * @typeParam Result - What its handler returns: what `once` answers.
 */
export interface Guard<Payload = unknown, Result = unknown> {
  /** For the compiler alone. */
  readonly [TYPES]?: { readonly payload: Payload; readonly result: Result } | undefined
  readonly consumer: string
  /**
   * Processes one delivery. The promise resolves when the outcome is stored; the caller then settles the message.
   *
   * @throws {@link ConfigurationError} The argument is not a {@link Delivery}, or an option does not fit the stores.
   * @throws {@link ConflictError} With `onConflict: 'throw'`: the key was used before with another payload.
   */
  process(delivery: Delivery, options?: ProcessOptions): Promise<Settlement>
  /** Processes several deliveries together, and answers their settlements in the same order. Throws like `process`. */
  processBatch(
    deliveries: readonly Delivery[],
    options?: ProcessOptions,
  ): Promise<readonly Settlement[]>
  /**
   * Stops new claims, lets running handlers end within `deadlineMs`, and clears all timers. The user's clients stay
   * open.
   */
  close(): Promise<void>
}

/** Where the messages of a publisher come from. The namespace may become known later. */
export type PublisherSource = Pick<DeliverySource, 'broker' | 'queue' | 'namespace'>

/** The settings of the guard that adapters need, with defaults applied. */
export interface GuardSettings {
  readonly consumer: string
  readonly concurrency: number
  /** Events that the guard takes at the same time, if these are more than its handlers. */
  readonly inHand?: number | undefined
  /** Events in hand may wait for others of their group, so there are always as many in hand as the guard takes. */
  readonly waitsInHand?: boolean | undefined
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly dedupWindowMs: number
  readonly maxAttempts: number
  readonly retryMaxMs: number
  readonly transaction: 'each' | 'batch'
  readonly hasInbox: boolean
  readonly hasLeases: boolean
  /** Options that need what the offset fence does not keep: a redelivery, or several events of one record. */
  readonly unfitForOffsets?: readonly string[] | undefined
  /** The `orderingKey` option defines the lanes, so an adapter does not know which deliveries share one. */
  readonly lanesAreUsers: boolean
}

/** Which event the caller means, in place of what the resolvers of the guard find. */
export interface CallerEvent {
  readonly key: string
  readonly tenant?: string | undefined
  readonly type?: string | undefined
}

export interface RunHooks extends ProcessOptions {
  /**
   * The caller waits for the outcome of its one event, whose body is JSON, and calls again itself: a failed run leaves nothing
   * behind. Only a handler for single events has an answer: for another guard the call rejects.
   */
  readonly caller?: CallerEvent | undefined
  /** Called once per delivery as soon as its settlement is known, in any order. */
  readonly onSettlement?: ((index: number, settlement: Settlement) => void) | undefined
  /** When aborted, no more runs start. Deliveries that have not started answer `abandon: closing`. */
  readonly stop?: AbortSignal | undefined
  /** When aborted, the signals of running handlers abort too. */
  readonly abort?: AbortSignal | undefined
  /** Milliseconds until handlers must have ended: the deadline of each is at most what is left when it starts. */
  readonly budgetMs?: number | undefined
  /**
   * Dead letters are published by the adapter, or moved by the broker. Otherwise the inbox's record is their only place,
   * and a message that it cannot hold is deferred.
   */
  readonly hasDeadLetterPlace?: boolean | undefined
}

/** Why a consumer starts nothing (design.md §17). */
export interface Pause {
  /** `operator`: from outside. `handler`: `context.pauseFor`. `guard`: the guard itself, and nobody but an operator ends it. */
  readonly source: 'operator' | 'handler' | 'guard'
  readonly by?: string | undefined
  readonly why?: string | undefined
  /** Milliseconds until it ends by itself. Undefined: somebody has to resume the consumer. */
  readonly forMs?: number | undefined
}

export type DeadLetterAnswer =
  /** The dead-letter place has it. The delivery may be settled. */
  | { readonly kind: 'published' | 'already' }
  /** The delivery must come back: it was not published, or that is not known. With an `error` if this call failed. */
  | { readonly kind: 'retry'; readonly cause: DeferCause; readonly error?: Error | undefined }

export type Availability =
  | { readonly kind: 'available' }
  | {
      readonly kind: 'down'
      readonly retryAt: EpochMs
      readonly error: unknown
      /** The stores are fine, and the consumer is paused: what was not started goes back to the broker. */
      readonly pause?: Pause | undefined
    }

/** The parked events of a consumer, in all its processes. */
export interface Backlog {
  /** Events that wait for a run or its retry, or are running. */
  readonly events: number
  /** How long the first of them has been due, milliseconds; 0 if none is. */
  readonly dueForMs: number
}

/** A dependency of the guard that does not answer, or refuses what it is asked. */
export interface GuardOutage {
  readonly dependency: 'inbox' | 'leases' | 'dead-letters'
  readonly error: unknown
}

/**
 * The part of a guard that adapters use beyond {@link Guard}. Not for users.
 *
 * The order is fixed: `run` stores everything before it answers, then the adapter settles with the broker.
 */
export interface GuardPort {
  readonly settings: GuardSettings
  readonly runtime: Runtime
  readonly logger: Logger
  /**
   * Claims a partition whose offsets are the identity of its events. Nothing is claimed if the inbox has offsets of
   * another one.
   *
   * @throws {@link StoreUnavailableError}
   */
  claimPartition(claim: PartitionClaim): Promise<PartitionAnswer>
  /** Aborted when the guard is closed: nothing runs any more. */
  readonly closing: AbortSignal
  /**
   * Opens the stores now instead of at the first delivery, so that configuration errors appear at start.
   *
   * @throws {@link ConfigurationError} | {@link StoreUnavailableError}
   */
  open(): Promise<void>
  /** Never rejects: every failure is a settlement. The settlements have the order of the deliveries. */
  run(deliveries: readonly Delivery[], hooks?: RunHooks): Promise<readonly Settlement[]>
  /**
   * Publishes the dead letter of a `dead-letter` settlement of {@link run}, by one process at a time. A crash before the
   * confirmation is recorded publishes it again. Answers within about 20 s, whatever the broker does: mostly within 11.
   *
   * @param publish - The same function for every dead letter of one place.
   */
  publishDeadLetter(settlement: Settlement, publish: Publish): Promise<DeadLetterAnswer>
  /** Lets the guard's poller publish parked dead letters from this source. The returned function unregisters. */
  registerPublisher(source: PublisherSource, publish: Publish): () => void
  /**
   * Pauses the consumer: here at once, and in its other processes within seconds if its inbox keeps pauses. Events that run
   * go on.
   */
  pause(pause: Pause): void
  /** Ends the pause. Nothing happens if there is none. */
  resume(): void
  /** Calls back whenever a pause begins: what was not started goes back. The returned function unsubscribes. */
  onPaused(listener: () => void): () => void
  /** Whether the adapter should fetch deliveries now. */
  availability(): Availability
  /**
   * Ends the guard's timers for its background work (parked events, the sweep, late releases): the process may be frozen
   * between two calls. The returned function does what is due, and should be called after each `run`. Never rejects.
   */
  onDemand(): (hooks?: Pick<RunHooks, 'stop' | 'abort' | 'budgetMs'>) => Promise<void>
  /** Writes what the lease store has not been told yet: nothing waits for done marks. Never rejects. */
  flush?(): Promise<void>
  /** Of a guard that runs its events later: what waited some seconds ago. Undefined before the first look. */
  backlog(): Backlog | undefined
  /** Dependencies whose last call failed, including those that the guard can work without. */
  outages(): readonly GuardOutage[]
}

/**
 * Why the guard answers deliveries without asking its stores, if it does so now. Afterwards the next delivery asks them.
 * Readiness comes from this and not from {@link GuardPort.availability}: if readiness stayed down until a delivery
 * succeeded, the load balancer would never send one.
 */
export function pauseOf(
  port: Pick<GuardPort, 'availability' | 'runtime'>,
): Extract<Availability, { kind: 'down' }> | undefined {
  const stores = port.availability()
  return stores.kind === 'down' && stores.retryAt > port.runtime.now() ? stores : undefined
}

/** What health and metrics read of a guard, also of one that takes requests and no deliveries. */
export type HealthPort = Pick<GuardPort, 'availability' | 'closing' | 'outages' | 'runtime'>

const PORT = Symbol.for('onceward.guard-port')
const HEALTH_PORT = Symbol.for('onceward.health-port')

export function attachPort(guard: Guard, port: GuardPort): void {
  Object.defineProperty(guard, PORT, { value: port })
}

/** @throws {@link ConfigurationError} if `guard` was not made by `createGuard` or `createBatchGuard`. */
export function portOf(guard: Guard): GuardPort {
  const port: unknown = Reflect.get(Object(guard), PORT)
  if (port === undefined) {
    throw new ConfigurationError('Expected a guard made by createGuard() or createBatchGuard().')
  }
  return port as GuardPort
}

export function attachHealthPort(guard: object, port: HealthPort): void {
  Object.defineProperty(guard, HEALTH_PORT, { value: port })
}

/** @throws {@link ConfigurationError} if no function of onceward made `guard`. */
export function healthPortOf(guard: unknown): HealthPort {
  const [port, health] = [PORT, HEALTH_PORT].map((name): unknown =>
    Reflect.get(Object(guard), name),
  )
  if (port === undefined && health === undefined) {
    throw new ConfigurationError(
      'Expected a guard made by createGuard(), createBatchGuard(), createHttpGuard() or createWebhookGuard().',
    )
  }
  return (port ?? health) as HealthPort
}

/** What a platform that runs routes itself, such as Lambda, uses of a guard of requests. Not for users. */
export interface RoutePort {
  readonly port: GuardPort
  /** @param budgetMs - Milliseconds until the handler must have ended, at most its deadline. */
  fetch(request: Request, budgetMs: number | undefined): Promise<Response>
}

const ROUTE_PORT = Symbol.for('onceward.route-port')

export function attachRoutePort(guard: object, route: RoutePort): void {
  Object.defineProperty(guard, ROUTE_PORT, { value: route })
}

/** @throws {@link ConfigurationError} if `guard` was not made by `createHttpGuard` or `createWebhookGuard`. */
export function routePortOf(caller: string, guard: unknown): RoutePort {
  const route: unknown = Reflect.get(Object(guard), ROUTE_PORT)
  if (route === undefined) {
    throw new ConfigurationError(
      `${caller} expected a guard made by createHttpGuard() or createWebhookGuard().`,
    )
  }
  return route as RoutePort
}
