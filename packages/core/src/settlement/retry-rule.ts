import { backoffMs } from '../concurrency/backoff.ts'
import { isThenable } from '../concurrency/maybe-async.ts'
import { areAttemptsSpent } from '../model/attempt-machine.ts'
import {
  describeError,
  type ErrorCode,
  OncewardError,
  RetryableError,
  UnknownTypeError,
} from '../model/errors.ts'
import type { DeadLetterReason } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from './outcome.ts'

/** What a failure of the handler means for its event. Never throws. */
export type RetryDecision =
  | { readonly kind: 'retry'; readonly delayMs: number }
  | {
      readonly kind: 'bury'
      readonly reason: Extract<DeadLetterReason, 'fatal' | 'unknown-type' | 'attempts-spent'>
    }

/** The back-off, or the delay that the error asks for, within `retry.maxMs`. */
export function retryDelayMs(options: ResolvedOptions, attempt: number, error: unknown): number {
  const { baseMs, maxMs } = options.retry
  const afterMs = error instanceof RetryableError ? error.afterMs : undefined
  // `afterMs` is NaN if it was computed from a date or from a missing `Retry-After` header. The back-off then applies.
  if (afterMs !== undefined && Number.isFinite(afterMs) && afterMs >= 0) {
    return Math.min(maxMs, afterMs)
  }
  return backoffMs({ attempt, baseMs, maxMs, random: () => options.runtime.random() })
}

/** Errors that a retry cannot fix. */
const FATAL_CODES: readonly ErrorCode[] = [
  'ONCEWARD_FATAL',
  'ONCEWARD_INVALID_PAYLOAD',
  'ONCEWARD_MISSING_KEY',
]

function isFatal(options: ResolvedOptions, error: unknown): boolean {
  if (OncewardError.is(error) && FATAL_CODES.includes(error.code)) return true
  try {
    const answer: unknown = options.isFatal?.(error) ?? false
    if (typeof answer === 'boolean') return answer
    Promise.resolve(answer).catch(() => undefined)
    // A promise is always truthy. Treated as an answer, it would dead-letter every event after its first failure.
    options.reportOnce(
      'error',
      { answered: isThenable(answer) ? 'a promise' : typeof answer },
      'isFatal must answer true or false at once, the error counts as retryable: make the function synchronous',
    )
    return false
  } catch (thrown) {
    options.logger.error(
      { err: describeError(thrown) },
      'isFatal threw, the error counts as retryable: fix the function',
    )
    return false
  }
}

export function decideRetry(
  options: ResolvedOptions,
  attempt: number,
  error: unknown,
): RetryDecision {
  if (error instanceof UnknownTypeError) return { kind: 'bury', reason: 'unknown-type' }
  if (isFatal(options, error)) return { kind: 'bury', reason: 'fatal' }
  if (areAttemptsSpent(attempt, options.retry.attempts))
    return { kind: 'bury', reason: 'attempts-spent' }
  return { kind: 'retry', delayMs: retryDelayMs(options, attempt, error) }
}

/** The outcome of a run whose handler asked to come back later. */
export const deferredOutcome = (
  attempt: number,
  delayMs: number,
): Extract<Outcome, { kind: 'deferred' }> => ({
  ...{ kind: 'deferred', attempt, delayMs, cause: 'deferred-by-handler' },
})

/** A failure that is given back to its caller: due at once, and recorded nowhere. */
export function callerFailure(
  attempt: number,
  error: unknown,
): Extract<Outcome, { kind: 'failed' }> {
  return { kind: 'failed', attempt, delayMs: 0, error, cause: 'handler-failed' }
}

/** Handles a failure that only the outcome records: a retry or a dead letter. */
export function failureOutcome(
  options: ResolvedOptions,
  attempt: number,
  error: unknown,
): Extract<Outcome, { kind: 'failed' | 'dead' }> {
  if (options.callerRetries !== undefined) return callerFailure(attempt, error)
  const decision = decideRetry(options, attempt, error)
  return decision.kind === 'retry'
    ? { kind: 'failed', attempt, delayMs: decision.delayMs, error, cause: 'handler-failed' }
    : { kind: 'dead', reason: decision.reason, attempt, error }
}
