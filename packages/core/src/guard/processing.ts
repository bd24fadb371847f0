import type { Breaker } from '../concurrency/breaker.ts'
import type { InFlight } from '../concurrency/in-flight.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { EventId } from '../model/brands.ts'
import { concernsStore, describeError, StoreUnavailableError } from '../model/errors.ts'
import type { InFlightEvent, Timings } from '../model/in-flight-event.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { HandlerCall } from '../transaction/engine.ts'
import type { OpenStores } from './open-stores.ts'

/** What the five steps share for the deliveries of one call. */
export interface Processing {
  readonly options: ResolvedOptions
  readonly call: HandlerCall
  readonly stores: OpenStores
  readonly breaker: Breaker
  readonly inFlight: InFlight
  readonly signals: StopSignals
  /** Step 5. Called once for each delivery, with its index in the call, after everything is stored. */
  readonly observe: (index: number, outcome: Outcome, facts: Facts) => void
}

/** Details of a delivery besides its outcome. */
export interface Facts {
  readonly key?: string | undefined
  readonly eventId?: EventId | undefined
  readonly handlerMs?: number | undefined
  readonly timings?: Timings | undefined
}

export function factsOf({ event, timings }: InFlightEvent, handlerMs?: number | undefined): Facts {
  return { key: event.key, eventId: event.id, handlerMs, timings }
}

/** Deferral while a store is down, ms, if the breaker has no better value. */
export const STORE_DOWN_MS = 1_000

/**
 * A store failed outside of any transaction, or onceward has a defect. The delivery is deferred, so nothing is lost.
 */
export function storeFailure(
  { breaker, options }: Pick<Processing, 'breaker' | 'options'>,
  error: unknown,
): Outcome {
  if (concernsStore(error)) breaker.failed(error)
  if (!(error instanceof StoreUnavailableError))
    options.logger.error(
      { err: describeError(error) },
      'a store call failed and its events are deferred: check the store',
    )
  return { kind: 'store-down', delayMs: STORE_DOWN_MS, error, cause: 'store-error' }
}
