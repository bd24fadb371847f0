import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import { type ReceivedDeliveries, receive } from '../receive/receive.ts'
import { observeParts } from '../settlement/observe-parts.ts'
import { claimEvents } from './claim-events.ts'
import { failAll, isOver } from './end-event.ts'
import { runByPlace } from './place.ts'
import type { Processing } from './processing.ts'
import type { Routed } from './route.ts'
import { runEvents, strategyOf } from './run-events.ts'

/** Takes deliveries through five steps: receive, claim, run, complete, observe. Never rejects. */
export function processDeliveries(
  processing: Processing,
  deliveries: readonly Delivery[],
): MaybeAsync<unknown> {
  // 1. Receive: decode, identify, record refused messages, group the copies of one event.
  const receiving = receive(processing, deliveries)
  return receiving instanceof Promise
    ? receiving.then((received) => processReceived(processing, received))
    : processReceived(processing, receiving)
}

/** Steps 2 to 5 for messages that were received together. */
export async function processReceived(
  call: Processing,
  { decided, events, parts }: ReceivedDeliveries,
): Promise<void> {
  const items = parts && observeParts(call, parts)
  const processing = items === undefined ? call : { ...call, observe: items.observe }
  const { lanes, settling } = processing
  // A message that could not be read holds the later events of its lane.
  for (const { index, key, lane, outcome, type } of decided) {
    processing.observe(index, outcome, { key, type })
    lanes.note({ index, lane }, outcome)
  }
  const open: readonly Routed[] =
    decided.length === 0 ? events : events.filter((event) => !isOver(processing, event))
  try {
    // Records that are known by their place need no claim, unless something happens to them.
    const isByPlace = open.some(isPlaced)
    if (isByPlace) await runByPlace(processing, open.filter(isPlaced))
    // 2. Claim: leases for all events in one round trip, if there is a lease store.
    const claiming = claimEvents(processing, isByPlace ? withoutEnded(open) : open)
    if (claiming !== undefined) await claiming
    // 3. Run: the event's row, the handler and the commit in one transaction. Steps 4 and 5 follow in `end`.
    const [first] = open
    if (first !== undefined && open.length === 1) {
      await strategyOf(processing, first)(processing, open)
    } else await runEvents(processing, withoutEnded(open))
  } catch (error) {
    // Only a defect of onceward gets here.
    failAll(processing, open, error)
  } finally {
    // The next delivery of an event without an outcome does not wait for a finished run.
    for (const { endFlight, isOver } of open) if (isOver === undefined) endFlight?.()
  }
  if (settling.size > 0) await Promise.all(settling.values())
  if (items !== undefined) await items.idle()
}

const isPlaced = ({ member }: Routed): boolean => member.event.delivery.place !== undefined

const withoutEnded = (events: readonly Routed[]): readonly Routed[] =>
  events.filter(({ isOver }) => isOver !== true)
