import { inTurns, toLanes, WAITING_LANES } from '../concurrency/lanes.ts'
import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { type Claimed, claimLeases } from '../lease/claim.ts'
import { completeLease } from '../lease/complete.ts'
import type { Delivery } from '../model/delivery.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import { laneFollowerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import { concludeCopies, tellDuplicate } from './copies.ts'
import { LaneStops } from './lane-stops.ts'
import type { OpenLeases } from './open-stores.ts'
import { parkEvents } from './park-events.ts'
import { factsOf, type Processing, STORE_DOWN_MS, storeFailure } from './processing.ts'
import { type DeliveryGroup, type Received, type ReceivedDeliveries, receive } from './receive.ts'
import { takeOff } from './take-off.ts'
import { processInTurns } from './turns.ts'
import { type Ended, runBesideOthers, runUnguarded, runWithoutClaim } from './unguarded.ts'
import { type InboxRun, runWithInbox } from './with-inbox.ts'
import { runWithoutInbox } from './without-inbox.ts'

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

function processReceived(
  processing: Processing,
  received: ReceivedDeliveries,
): MaybeAsync<unknown> {
  /** Made for the first message that holds its lane unread, because most calls have none. */
  let stops: LaneStops | undefined
  for (const { index, outcome, key, lane } of received.decided) {
    processing.observe(index, outcome, { key })
    if (lane === undefined || !stopsLane(outcome)) continue
    stops ??= new LaneStops()
    stops.note(lane, { index, outcome })
  }
  return stops === undefined
    ? processReadable(processing, received)
    : processBehindUnread(processing, received, stops)
}

/** A message that could not be read holds the later events of its lane, so that they do not overtake it. */
async function processBehindUnread(
  processing: Processing,
  { groups, hasRivals, unguarded }: Readable,
  stops: LaneStops,
): Promise<void> {
  const free: Received[] = []
  for (const each of unguarded) {
    const outcome = stops.followerOutcome(each)
    if (outcome === undefined) free.push(each)
    else processing.observe(each.index, outcome, {})
  }
  const open = await stops.conclude(processing, groups)
  await processReadable(processing, { groups: open, hasRivals, unguarded: free })
}

type Readable = Pick<ReceivedDeliveries, 'groups' | 'hasRivals' | 'unguarded'>

function processReadable(
  processing: Processing,
  { groups, hasRivals, unguarded }: Readable,
): Promise<unknown> {
  const isParking = processing.options.callerRetries?.runsLater === true
  const processKeyed = isParking ? parkEvents : processGroups
  const keyed = hasRivals
    ? processInTurns(processing, groups, processKeyed)
    : processKeyed(processing, groups)
  if (unguarded.length === 0) return keyed
  const lanes = toLanes(unguarded, ({ member }) => member.lane)
  const turns = { width: processing.stores.slots.size, stop: processing.signals.whenStopping }
  const keyless = inTurns(lanes, turns, (lane) => processLaneWithoutKeys(processing, lane))
  return Promise.all([keyed, keyless])
}

/** Steps 2 to 5 for events that this process has in flight only once. */
export async function processEvents(
  processing: Processing,
  groups: readonly DeliveryGroup[],
): Promise<void> {
  const flight = takeOff(processing.inFlight, groups)
  let landing: MaybeAsync<unknown>
  const onOutcome: OnOutcome = (member, outcome, handlerMs) => {
    let completing: MaybeAsync<void> | undefined
    flight.conclude(member, (group) => {
      // 4. Complete: tell the lease store the outcome, always after the commit.
      completing = complete(processing, member, outcome)
      const ended: EndedEvent = { group, member, outcome, handlerMs }
      return completing instanceof Promise
        ? completing.then(() => observe(processing, ended))
        : observe(processing, ended)
    })
    return completing
  }
  try {
    const members: InFlightEvent[] = []
    for (const { member } of groups) members.push(member)
    // 2. Claim: leases for all events in one round trip, if there is a lease store.
    const { leases } = processing.stores
    const claims = leases === undefined ? undefined : await claimLeases(leases, members)
    // 3. Run: the event's row, the handler and the commit in one transaction.
    await run(processing, { members, claims, onOutcome })
  } catch (error) {
    // Only a defect of onceward gets here. Each event without an outcome is deferred.
    const outcome = storeFailure(processing, error)
    for (const member of flight.unconcluded()) void onOutcome(member, outcome, undefined)
  } finally {
    landing = flight.land()
  }
  if (landing instanceof Promise) await landing
}

interface EndedEvent {
  readonly group: DeliveryGroup
  readonly member: InFlightEvent
  readonly outcome: Outcome
  readonly handlerMs: number | undefined
}

/** 5. Observe: settlement, hook and log line, as soon as the outcome of this event is known. */
function observe(
  processing: Processing,
  { group, handlerMs, member, outcome }: EndedEvent,
): MaybeAsync<void> {
  processing.observe(group.index, outcome, factsOf(member, handlerMs))
  return group.copies.length === 0 ? undefined : concludeCopies(processing, group, outcome)
}

/** The answer resolves when the lease store knows the outcome. */
type OnOutcome = (
  member: InFlightEvent,
  outcome: Outcome,
  handlerMs: number | undefined,
) => MaybeAsync<void>

interface ClaimedEvents {
  readonly members: readonly InFlightEvent[]
  readonly claims: readonly Claimed[] | undefined
  readonly onOutcome: OnOutcome
}

function run(
  processing: Processing,
  { claims, members, onOutcome }: ClaimedEvents,
): Promise<unknown> {
  const { call, options, signals, stores } = processing
  if (stores.engine === undefined) {
    return runWithoutInbox({ options, call, stores, signals, onOutcome }, members, claims ?? [])
  }
  const { engine, leases } = stores
  // The promise may be dropped here, because the flight of the event waits for it.
  const onCommitted = onOutcome as InboxRun['onOutcome']
  return runWithInbox({ engine, leases, signals, onOutcome: onCommitted }, members, claims)
}

function complete(
  processing: Processing,
  member: InFlightEvent,
  outcome: Outcome,
): MaybeAsync<void> {
  const { leases } = processing.stores
  const completing = leases === undefined ? undefined : completeLease(leases, member, outcome)
  return outcome.kind === 'duplicate'
    ? andThen(completing, () => tellDuplicate(processing, member, outcome.result))
    : completing
}

/** Waits for an event that this process already has in flight. The rest of its lane waits too. */
function processGroups(processing: Processing, groups: readonly DeliveryGroup[]): Promise<void> {
  if (groups.length === 0) return Promise.resolve()
  const { inFlight } = processing
  for (const { member } of groups)
    if (inFlight.has(member.event.id)) return processBesideFlights(processing, groups)
  return processEvents(processing, groups)
}

async function processBesideFlights(
  processing: Processing,
  groups: readonly DeliveryGroup[],
): Promise<void> {
  const isInFlight = ({ member }: DeliveryGroup): boolean =>
    processing.inFlight.has(member.event.id)
  const lanes = toLanes(groups, ({ member }) => member.lane)
  const waiting = lanes.filter((lane) => lane.some(isInFlight))
  const waitingGroups = new Set(waiting.flat())
  const free = groups.filter((group) => !waitingGroups.has(group))
  await Promise.all([
    free.length === 0 ? undefined : processEvents(processing, free),
    inTurns(waiting, { width: WAITING_LANES, stop: processing.signals.whenStopping }, (lane) =>
      waitForFlights(processing, lane),
    ),
  ])
}

async function waitForFlights(
  processing: Processing,
  lane: readonly DeliveryGroup[],
): Promise<void> {
  const { inFlight, options, stores } = processing
  const free: DeliveryGroup[] = []
  let stoppedBy: Outcome | undefined
  for (const group of lane) {
    const { id } = group.member.event
    if (stoppedBy === undefined && (await inFlight.waitFor(id, options.claimWaitMs))) {
      free.push(group)
      continue
    }
    const delayMs = stores.engine?.heldBackoff.nextMs(id) ?? STORE_DOWN_MS
    const outcome: Outcome = stoppedBy
      ? laneFollowerOutcome(stoppedBy)
      : { kind: 'in-progress', delayMs, cause: 'in-flight-here' }
    stoppedBy ??= outcome
    processing.observe(group.index, outcome, factsOf(group.member))
    await concludeCopies(processing, group, outcome)
  }
  if (free.length > 0) await processEvents(processing, free)
}

/** One after the other, until one must come again. */
async function processLaneWithoutKeys(
  processing: Processing,
  lane: readonly Received[],
): Promise<void> {
  let stoppedBy: Outcome | undefined
  for (const each of lane) {
    if (stoppedBy !== undefined) {
      processing.observe(each.index, laneFollowerOutcome(stoppedBy), {})
      continue
    }
    const outcome = await processWithoutKey(processing, each)
    if (stopsLane(outcome)) stoppedBy = outcome
  }
}

async function processWithoutKey(
  processing: Processing,
  { index, member }: Received,
): Promise<Outcome> {
  const { handlerMs, outcome } = await runOrRemember(processing, member)
  const ended = await recorded(processing, member, outcome)
  processing.observe(index, ended, { handlerMs })
  return ended
}

/** The handler does not run again only because its dead letter could not be published. */
function runOrRemember(processing: Processing, member: InFlightEvent): MaybeAsync<Ended> {
  const { signals, stores } = processing
  const verdict = processing.verdictOn(member.event.delivery)
  if (verdict !== undefined)
    return { outcome: { ...verdict, repeated: true }, handlerMs: undefined }
  return stores.engine === undefined
    ? runKeyless(processing, stores, member)
    : runUnguarded(stores.engine, member, signals)
}

function runKeyless(
  processing: Processing,
  { slots }: OpenLeases,
  member: InFlightEvent,
): Promise<Ended> {
  const { runtime } = processing.options
  return runBesideOthers({ slots, runtime, signals: processing.signals }, (hold) =>
    runWithoutClaim({ ...processing, hold }, member),
  )
}

/** Writes the durable record of a dead letter before its delivery is settled. */
async function recorded(
  processing: Processing,
  { event: { delivery } }: InFlightEvent,
  outcome: Outcome,
): Promise<Outcome> {
  const session = processing.stores.engine?.session
  if (outcome.kind !== 'dead' || session === undefined) return outcome
  const { error, reason } = outcome
  try {
    const [ref] = await session.refuse([{ delivery, reason, error }])
    return { ...outcome, ref }
  } catch (failure) {
    return storeFailure(processing, failure)
  }
}
