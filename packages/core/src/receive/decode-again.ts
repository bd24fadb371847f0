import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { RetryableError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { identify } from './identify.ts'

/** The payload of an event, decoded from its message once more: whoever had the first payload may have changed it. */
export function decodeAgain(
  options: ResolvedOptions,
  { event: { delivery } }: InFlightEvent,
): MaybeAsync<unknown> {
  return andThen(identify(delivery, options), (identified) => {
    if ('payload' in identified) return identified.payload
    // The event was identified a moment ago, so a user function answers differently now. The handler may have changed
    // the first payload, so this attempt fails.
    const cause = 'error' in identified ? identified.error : undefined
    throw new RetryableError(
      'The payload could not be decoded again for the next run: a function of the options answered differently. Make `decode`, `schema` and the resolvers depend on the message alone.',
      { cause },
    )
  })
}
