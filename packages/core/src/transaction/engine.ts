import type { Breaker } from '../concurrency/breaker.ts'
import type { HeldBackoff } from '../concurrency/deferrals.ts'
import type { OnStop, Semaphore } from '../concurrency/semaphore.ts'
import type { ResolvedOptions } from '../guard/resolve-options.ts'
import type { InboxSession } from '../model/inbox.ts'
import type { BatchHandler, Handler } from '../options/options.ts'
import type { LateReleases } from './release-later.ts'

/** The user's function: one event at a time, or all that share a transaction. */
export type HandlerCall =
  | { readonly kind: 'single'; readonly handler: Handler<unknown, unknown> }
  | { readonly kind: 'batch'; readonly handler: BatchHandler<unknown, unknown> }

/** What the steps of a guard with an inbox share. */
export interface Engine {
  readonly options: ResolvedOptions
  readonly session: InboxSession<unknown>
  readonly call: HandlerCall
  readonly breaker: Breaker
  /** As many transactions at once as the pool carries for this guard. */
  readonly slots: Semaphore
  readonly heldBackoff: HeldBackoff
  readonly lateReleases: LateReleases
}

/** How one call of `run` is told to stop. */
export interface StopSignals {
  /** Start nothing more. */
  readonly isStopping: () => boolean
  /** Calls back once that is so; the answer unsubscribes. */
  readonly whenStopping: OnStop
  /** Abort what runs. */
  readonly drain: AbortSignal | undefined
}
