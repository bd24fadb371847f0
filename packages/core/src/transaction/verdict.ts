import { backoffMs } from '../concurrency/backoff.ts'
import type { ResolvedOptions } from '../guard/resolve-options.ts'
import { type ErrorCode, OncewardError, RetryableError } from '../model/errors.ts'
import type { PendingEvent } from '../model/in-flight-event.ts'
import type { Burial, Failure, InboxTransaction } from '../model/inbox.ts'
import type { DeadLetterReason } from '../model/settlement.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Engine } from './engine.ts'

/** What a handler's failure means for its event: total, never throws. */
export type RetryDecision =
  | { readonly kind: 'retry'; readonly delayMs: number }
  | {
      readonly kind: 'bury'
      readonly reason: Extract<DeadLetterReason, 'fatal' | 'attempts-spent'>
    }

export function decideRetry(
  options: ResolvedOptions,
  attempt: number,
  error: unknown,
): RetryDecision {
  if (isFatal(options, error)) return { kind: 'bury', reason: 'fatal' }
  if (attempt >= options.retry.attempts) return { kind: 'bury', reason: 'attempts-spent' }
  return { kind: 'retry', delayMs: retryDelayMs(options, attempt, error) }
}

/** Backoff with full jitter, or what the error asks for, within `retry.maxMs`. */
export function retryDelayMs(options: ResolvedOptions, attempt: number, error: unknown): number {
  const { baseMs, maxMs } = options.retry
  const afterMs = error instanceof RetryableError ? error.afterMs : undefined
  if (afterMs !== undefined) return Math.min(maxMs, Math.max(0, afterMs))
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
    return options.isFatal?.(error) ?? false
  } catch (thrown) {
    options.logger.error(
      { err: describeError(thrown) },
      'isFatal threw; the error counts as retryable',
    )
    return false
  }
}

/**
 * Records the verdict about an event that stood alone in its transaction, and ends that transaction if it is open.
 * Undefined when the row is not this owner's any more: nothing changed, and the event is settled as read.
 */
export async function recordFailure(
  engine: Engine,
  pending: PendingEvent,
  failed: { readonly transaction?: InboxTransaction<unknown>; readonly error: unknown },
): Promise<Outcome | undefined> {
  const { error, transaction } = failed
  const attempt = pending.counted?.attempt ?? 1
  const sentence = decideRetry(engine.options, attempt, error)
  const { event } = pending.member
  const verdict = { event, token: pending.counted?.token, attempt, error }
  if (sentence.kind === 'bury') {
    await transaction?.rollback()
    const burial: Burial = { ...verdict, reason: sentence.reason }
    const [answer] = await engine.session.bury([burial])
    if (answer === 'lost') return undefined
    const ref = { kind: 'event', id: event.id } as const
    return { kind: 'dead', reason: sentence.reason, attempt, error, ref }
  }
  const failure: Failure = { ...verdict, delayMs: sentence.delayMs }
  const [answer] = await (transaction?.rollbackAndFail([failure]) ?? engine.session.fail([failure]))
  return answer === 'lost'
    ? undefined
    : { kind: 'failed', attempt, delayMs: sentence.delayMs, error }
}

/** Gives counted runs back that ended without a verdict while this process lives; never throws. */
export async function giveBack(
  engine: Engine,
  members: readonly PendingEvent[],
  as: 'given-back' | 'no-verdict',
): Promise<void> {
  const releases = members.flatMap(({ counted }) =>
    counted === undefined ? [] : [{ event: counted.event, token: counted.token, as }],
  )
  if (releases.length > 0) await engine.lateReleases.release(releases)
}

/** Their runs have not begun: nothing is counted, and each takes the same step again later. */
export async function giveBackUnstarted(
  engine: Engine,
  members: readonly PendingEvent[],
): Promise<void> {
  await giveBack(engine, members, 'given-back')
  for (const pending of members) pending.counted = undefined
}

/** What logs may say of an error: no cause, no payload, no driver detail. */
export function describeError(error: unknown): { name: string; message: string; code?: unknown } {
  if (!(error instanceof Error)) return { name: typeof error, message: String(error).slice(0, 200) }
  const code: unknown = Reflect.get(error, 'code')
  const { name, message } = error
  return code === undefined ? { name, message } : { name, message, code }
}
