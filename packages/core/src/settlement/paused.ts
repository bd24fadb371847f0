import type { RunHooks } from '../model/guard-port.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from './outcome.ts'

/** The outcome of every delivery of a consumer that is paused. Nothing was counted. */
export function pausedOutcome({
  valve,
}: Pick<ResolvedOptions, 'valve'>): Extract<Outcome, { kind: 'store-down' }> {
  return { kind: 'store-down', delayMs: valve.delayMs(), error: valve.error(), cause: 'paused' }
}

/**
 * A pause stops events as a drain does. Only a drain ends the consumer, so what a pause has stopped has an outcome of its
 * own, also if the pause is over by now.
 */
export function pausedOr(
  { valve }: Pick<ResolvedOptions, 'valve'>,
  outcome: Extract<Outcome, { kind: 'abandoned' }>,
  { abort, stop }: Pick<RunHooks, 'abort' | 'stop'>,
): Outcome {
  const { cause, reason, stillRunning } = outcome
  const isUnstarted = reason === 'closing' && stillRunning !== true
  if (!isUnstarted || valve.isClosed || stop?.aborted === true || abort?.aborted === true) {
    return outcome
  }
  const paused = pausedOutcome({ valve })
  return cause === undefined ? paused : { ...paused, cause }
}
