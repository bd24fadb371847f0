import type { EventId } from '../model/brands.ts'
import { describeError, SealError } from '../model/errors.ts'
import type { DueEvent, InboxSession } from '../model/inbox.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { openDelivery, Sealer } from './sealer.ts'

/** Deliveries that cannot be opened, after which one search ends. */
const MOST_CLOSED = 1_000

const STAYS =
  'a stored message cannot be opened and stays where it is: give the guard the `seal` with the key that sealed it'

/**
 * Stored deliveries that are due, opened. One that cannot be opened stays as it is, due, and is said once; it does not keep the
 * others from their turn.
 */
export async function openedDue(
  session: InboxSession<unknown>,
  options: ResolvedOptions,
  limit: number,
): Promise<readonly DueEvent[]> {
  const sealer = new Sealer(options.seal, options)
  const opened: DueEvent[] = []
  const closed: EventId[] = []
  for (;;) {
    const asked = limit - opened.length
    const due = await session.due(asked, closed)
    const before = closed.length
    for (const event of due) {
      try {
        opened.push({ ...event, delivery: await openDelivery(sealer, event.delivery) })
      } catch (error) {
        if (!(error instanceof SealError)) throw error
        const { consumer } = options
        const fields = { consumer, id: event.ref.id, err: describeError(error) }
        options.reportOnce('error', fields, STAYS, event.ref.id)
        // A refused message is offered again only after a while.
        if (event.ref.kind === 'event') closed.push(event.ref.id)
      }
    }
    const isMore = closed.length > before && due.length === asked && closed.length < MOST_CLOSED
    if (!isMore || opened.length === limit) return opened
  }
}
