import { backoffMs } from '../concurrency/backoff.ts'
import { isThenable } from '../concurrency/maybe-async.ts'
import { areAttemptsSpent } from '../model/attempt-rules.ts'
import { describeError, type ErrorCode, OncewardError, RetryableError } from '../model/errors.ts'
import type { DeadLetterReason } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from './outcome.ts'

/** What a handler's failure means for its event: total, never throws. */
export type RetryDecision =
  | { readonly kind: 'retry'; readonly delayMs: number }
  | {
      readonly kind: 'bury'
      readonly reason: Extract<DeadLetterReason, 'fatal' | 'attempts-spent'>
    }

/** Backoff with full jitter, or what the error asks for, within `retry.maxMs`. */
export function retryDelayMs(options: ResolvedOptions, attempt: number, error: unknown): number {
  const { baseMs, maxMs } = options.retry
  const afterMs = error instanceof RetryableError ? error.afterMs : undefined
  // A `Retry-After` that is a date, or a header that is missing, becomes NaN: the ordinary back-off then.
  if (afterMs !== undefined && Number.isFinite(afterMs) && afterMs >= 0) {
    return Math.min(maxMs, afterMs)
  }
  return backoffMs({ attempt, baseMs, maxMs, random: () => options.runtime.random() })
}

/** It will be no better next time. */
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
    // A promise is always truthy: taken for an answer, it would bury every event that fails once.
    options.logger.error(
      { answered: isThenable(answer) ? 'a promise' : typeof answer },
      'isFatal must answer true or false at once; the error counts as retryable',
    )
    if (isThenable(answer)) answer.then(undefined, () => undefined)
    return false
  } catch (thrown) {
    options.logger.error(
      { err: describeError(thrown) },
      'isFatal threw; the error counts as retryable',
    )
    return false
  }
}

export function decideRetry(
  options: ResolvedOptions,
  attempt: number,
  error: unknown,
): RetryDecision {
  if (isFatal(options, error)) return { kind: 'bury', reason: 'fatal' }
  if (areAttemptsSpent(attempt, options.retry.attempts))
    return { kind: 'bury', reason: 'attempts-spent' }
  return { kind: 'retry', delayMs: retryDelayMs(options, attempt, error) }
}

/** What follows from a failure where nothing but the outcome records it: a retry, or a dead letter. */
export function failureOutcome(
  options: ResolvedOptions,
  attempt: number,
  error: unknown,
): Extract<Outcome, { kind: 'failed' | 'dead' }> {
  const decision = decideRetry(options, attempt, error)
  return decision.kind === 'retry'
    ? { kind: 'failed', attempt, delayMs: decision.delayMs, error, cause: 'handler-failed' }
    : { kind: 'dead', reason: decision.reason, attempt, error }
}
