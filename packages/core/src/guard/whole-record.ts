import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { type Processing, storeFailure } from './processing.ts'

interface Places extends Pick<Processing, 'options' | 'breaker' | 'stores'> {
  /** The adapter publishes dead letters, or the broker moves them. */
  readonly hasDeadLetterPlace: boolean
}

const NOT_STORED =
  'The message is too large to store and there is no other dead-letter place, so it stays with the broker. Raise ' +
  '`maxStoredBytes` of the inbox, or configure `deadLetter` of the adapter.'

/**
 * Where the record is the only place of a dead letter, it must hold the whole message before the original is settled.
 * Otherwise the delivery is deferred.
 */
export function wholeOrDeferred(
  { breaker, hasDeadLetterPlace, options, stores }: Places,
  delivery: Delivery,
  outcome: Outcome,
): MaybeAsync<Outcome> {
  const session = stores.engine?.session
  if (outcome.kind !== 'dead' || outcome.ref === undefined || hasDeadLetterPlace) return outcome
  if (session?.isWhole === undefined) return outcome
  const { attempt } = outcome
  const { maxMs: delayMs } = options.retry
  return session.isWhole(outcome.ref, delivery).then(
    (isWhole): Outcome =>
      isWhole
        ? outcome
        : {
            kind: 'not-stored',
            attempt,
            delayMs,
            error: new Error(NOT_STORED),
            cause: 'not-stored',
          },
    (error: unknown) => storeFailure({ breaker, options }, error),
  )
}
