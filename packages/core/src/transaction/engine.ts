import type { HeldBackoff } from '../concurrency/backoff.ts'
import type { Breaker } from '../concurrency/breaker.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Semaphore } from '../concurrency/semaphore.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { InboxSession } from '../model/inbox.ts'
import type { BatchHandler, Handler } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
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
  /** The payload as the first run got it: a handler may have changed the one that it was given. */
  readonly decodeAgain: (event: InFlightEvent) => MaybeAsync<unknown>
  readonly breaker: Breaker
  /** As many transactions at once as the pool carries for this guard. */
  readonly slots: Semaphore
  readonly heldBackoff: HeldBackoff
  readonly lateReleases: LateReleases
}
