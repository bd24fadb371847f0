import type { HeldBackoff } from '../concurrency/backoff.ts'
import type { Breaker } from '../concurrency/breaker.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Semaphore, Ticket } from '../concurrency/semaphore.ts'
import type { TxWatch } from '../handler/handler-context.ts'
import type { LateStatements } from '../handler/late-statements.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { BeginRequest, Begun, InboxSession } from '../model/inbox.ts'
import type { Release } from '../model/runtime.ts'
import type { BatchHandler, Handler } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { DoneMemory } from './done-memory.ts'
import type { LateReleases } from './release-later.ts'

/** The user's function, for one event or for all events of a transaction. */
export type HandlerCall =
  | ({ readonly kind: 'single' } & Calls<Handler<unknown, unknown>>)
  | ({ readonly kind: 'batch' } & Calls<BatchHandler<unknown, unknown>>)

interface Calls<Function> {
  readonly handler: Function
  /** Of a guard with `on`: in place of the handler. */
  readonly byType?: ReadonlyMap<string, Function> | undefined
}

/** The user's function for an event. */
export function handlerOf<Function>(
  { byType, handler }: Calls<Function>,
  { type }: Pick<InFlightEvent, 'type'>,
): Function {
  return (type === undefined ? undefined : byType?.get(type)) ?? handler
}

/** A run that waits for a slot, and that may begin behind the COMMIT of another run. */
export interface Passenger extends Ticket {
  /** What it would begin with. Undefined: it must begin by itself. */
  request(): BeginRequest | undefined
  /** It has begun. Its slot comes next. */
  board(aboard: {
    /** Of the lock that runs share. */
    readonly hold: Release
    readonly begun: Promise<Begun<unknown>>
    readonly askedAtMs: number
  }): void
}

/** The parts that all steps of a guard with an inbox share. */
export interface Engine {
  readonly options: ResolvedOptions
  readonly session: InboxSession<unknown>
  readonly call: HandlerCall
  /** Decodes the payload again: the handler may have changed the first payload. */
  readonly decodeAgain: (event: InFlightEvent) => MaybeAsync<unknown>
  readonly breaker: Breaker
  /** Limits the concurrent transactions to the connections that the pool has for this guard. */
  readonly slots: Semaphore<Passenger>
  readonly heldBackoff: HeldBackoff
  readonly lateReleases: LateReleases
  readonly txWatch: TxWatch
  readonly late: LateStatements
  readonly sharing: Sharing
  readonly seenDone: DoneMemory
}

/** Whether events may share transactions. Mutable. */
export interface Sharing {
  /** Until then each event gets its own transaction, because a handler changed settings; on the monotonic clock. */
  apartUntilMs: number | undefined
}

/** A handler for whole batches sees its own settings only, so its events are never kept apart. */
export function mayShare({ options, sharing: { apartUntilMs } }: Engine): boolean {
  return apartUntilMs === undefined || options.runtime.monotonic() >= apartUntilMs
}
