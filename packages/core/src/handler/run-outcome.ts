import {
  ConfigurationError,
  describeError,
  SealError,
  StoreUnavailableError,
} from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { failureOutcome } from '../settlement/retry-rule.ts'
import type { LocalDefers } from './deferral.ts'
import type { HandlerEnd } from './run-handler.ts'

type Abandoned = Extract<Outcome, { kind: 'abandoned' }>

/** The end of a run that says nothing about its events, so the broker redelivers them and no attempt has failed. */
type NoVerdict =
  | Extract<HandlerEnd, { kind: 'drained' }>
  | { readonly kind: 'lease-lost' | 'not-replicated' | 'commit-unknown'; readonly error: unknown }

/** The same for every strategy, whatever claims the event. */
export function outcomeWithoutVerdict(end: NoVerdict): Abandoned {
  switch (end.kind) {
    case 'drained':
      return { kind: 'abandoned', reason: 'closing', ...(!end.ended && { stillRunning: true }) }
    case 'lease-lost':
      return { kind: 'abandoned', reason: 'lease-lost', error: end.error, stillRunning: true }
    case 'not-replicated':
      return { ...outcomeWithoutVerdict({ ...end, kind: 'commit-unknown' }), cause: end.kind }
    case 'commit-unknown':
      return { kind: 'abandoned', reason: 'commit-unknown', error: end.error }
  }
}

/** A run of which no inbox keeps anything. */
interface UnrecordedRun {
  readonly options: ResolvedOptions
  readonly member: InFlightEvent
  readonly attempt: number
  readonly defers: LocalDefers
}

/** The outcome of a handler that has not returned and had no transaction. Only the outcome records its failure. */
export function outcomeOfHandler(
  { attempt, defers, member, options }: UnrecordedRun,
  end: Exclude<HandlerEnd, { kind: 'returned' }>,
): Outcome {
  switch (end.kind) {
    case 'deferred':
      return defers.outcomeOf(options, member, { attempt, delayMs: end.delayMs })
    case 'drained':
    case 'lease-lost':
      return outcomeWithoutVerdict(end)
    case 'deadline':
      // It may still run, and nothing stops its effects: its caller must not read that the key is free again.
      return options.callerRetries === undefined
        ? failureOutcome(options, attempt, end.error)
        : { kind: 'abandoned', reason: 'deadline', error: end.error, stillRunning: true }
    case 'threw':
      return failureOutcome(options, attempt, end.error)
  }
}

/**
 * The error with which the events of a transaction are deferred that the store failed: the connection was lost, or a
 * statement of the inbox failed with COMMIT. One such transaction says nothing about the store: if it opened the breaker,
 * an event that breaks its connection in every run would stop the consumer.
 *
 * @throws {@link ConfigurationError} if the tables or rights of the store do not fit: another connection does not change that.
 * @throws {@link SealError} if nothing can be sealed: the consumer pauses, as if the store were down.
 */
export function storeLoss({ logger }: ResolvedOptions, error: unknown): StoreUnavailableError {
  if (error instanceof ConfigurationError || error instanceof SealError) throw error
  const err = describeError(error)
  logger.warn(
    { err },
    'the store failed before the commit and the events are deferred: check the server and the network',
  )
  return new StoreUnavailableError(`The store failed before the commit: ${err.message}`, {
    cause: error,
  })
}
