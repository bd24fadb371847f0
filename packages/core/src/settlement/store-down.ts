import type { Breaker } from '../concurrency/breaker.ts'
import { concernsStore, describeError, StoreUnavailableError } from '../model/errors.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from './outcome.ts'

/** Deferral while a store is down, ms, if the breaker has no better value. */
export const STORE_DOWN_MS = 1_000

/**
 * A store failed outside of any transaction, or onceward has a defect. The delivery is deferred, so nothing is lost.
 */
export function storeFailure(
  { breaker, options }: { readonly breaker: Breaker; readonly options: ResolvedOptions },
  error: unknown,
): Outcome {
  if (concernsStore(error)) breaker.failed(error)
  if (!(error instanceof StoreUnavailableError))
    options.logger.error(
      { err: describeError(error) },
      'a store call failed and its events are deferred: check the store',
    )
  return storeDown(error)
}

export const storeDown = (error: unknown): Extract<Outcome, { kind: 'store-down' }> => ({
  ...{ kind: 'store-down', delayMs: STORE_DOWN_MS, error, cause: 'store-error' },
})
