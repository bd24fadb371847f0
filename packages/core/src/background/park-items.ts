import type { DeadLetterRef } from '../model/dead-letter.ts'
import type { Delivery } from '../model/delivery.ts'
import { MissingKeyError } from '../model/errors.ts'
import type { Refusal } from '../model/inbox.ts'
import { identifyAll, type ReadContext, type Seen } from '../receive/read.ts'
import type { OpenInbox } from '../run/stores.ts'

/**
 * A refused message that is replayed holds several events: each is stored as one that a later poll runs, or as refused.
 * The record of the message goes when all are stored. Until then a later poll tries again, and what is stored stays.
 */
export async function parkItems(
  context: ReadContext & { readonly stores: OpenInbox },
  { items, ref }: { readonly items: readonly Delivery[]; readonly ref: DeadLetterRef },
): Promise<void> {
  const { options, stores } = context
  const { session } = stores.engine
  const seen = await identifyAll(context, items, {
    isSuspect: () => true,
    isEvent: () => false,
  })
  const events = seen.flatMap((each) => (each.kind === 'identified' ? [each.event] : []))
  const answers = await session.park(events, options.claimWaitMs)
  const refusals = seen.flatMap((each, index) => refusalOf(each, items[index] as Delivery))
  if (refusals.length > 0) await session.refuse(refusals)
  const areStored = answers.every(({ kind }) => kind === 'parked' || kind === 'known')
  if (areStored && !seen.some(isUnread)) await session.resolveRefused(ref.id)
}

const isUnread = ({ kind }: Seen): boolean => kind === 'retry' || kind === 'decided'

/** An item without a key cannot wait in the store, whatever the policy is for messages. */
function refusalOf(seen: Seen, delivery: Delivery): readonly Refusal[] {
  if (seen.kind === 'refused') return [{ ...seen, delivery }]
  if (seen.kind !== 'unguarded') return []
  const error = new MissingKeyError('The item of a replayed message has no key.')
  return [{ delivery, reason: 'missing-event-key', error }]
}
