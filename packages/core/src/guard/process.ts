import { inTurns, Lanes, toLanes, WAITING_LANES } from '../concurrency/lanes.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { claimLeases, type Leases } from '../lease/claim.ts'
import { isHeldElsewhere } from '../lease/wait-for-holder.ts'
import type { Delivery } from '../model/delivery.ts'
import { laneFollowerOutcome, stopsLane } from '../settlement/outcome.ts'
import { type EventRun, end, failAll, isOver } from './event-run.ts'
import { parkEvents } from './park-events.ts'
import { type Processing, STORE_DOWN_MS } from './processing.ts'
import { type Received, type ReceivedDeliveries, receive } from './receive.ts'
import { runOne, runTogether } from './run-events.ts'

type Lane = readonly Received[]

/** Takes deliveries through five steps: receive, claim, run, complete, observe. Never rejects. */
export function processDeliveries(
  processing: Processing,
  deliveries: readonly Delivery[],
): MaybeAsync<unknown> {
  // 1. Receive: decode, identify, record refused messages, group the copies of one event.
  const receiving = receive(processing, deliveries)
  const isParking = processing.options.callerRetries?.runsLater === true
  return receiving instanceof Promise
    ? receiving.then((received) => processReceived(processing, received, isParking))
    : processReceived(processing, receiving, isParking)
}

/** Steps 2 to 5 for messages that were received together. */
export async function processReceived(
  processing: Processing,
  { decided, events }: ReceivedDeliveries,
  isParking = false,
): Promise<void> {
  const lanes = new Lanes({ stopsLane, laneFollowerOutcome })
  const run: EventRun = { processing, lanes, isParking, settling: new Map(), stopping: new Map() }
  // A message that could not be read holds the later events of its lane.
  for (const { index, key, lane, outcome } of decided) {
    processing.observe(index, outcome, { key })
    lanes.note({ index, lane }, outcome)
  }
  const open = decided.length === 0 ? events : events.filter((event) => !isOver(run, event))
  try {
    // 2. Claim: leases for all events in one round trip, if there is a lease store.
    startFlights(run, open)
    const { leases } = processing.stores
    if (leases !== undefined) await claim(run, leases, open)
    // 3. Run: the event's row, the handler and the commit in one transaction.
    await runAll(run, open)
  } catch (error) {
    // Only a defect of onceward gets here.
    failAll(run, open, error)
  } finally {
    // The next delivery of an event without an outcome does not wait for a finished run.
    for (const { endFlight, isOver } of open) if (isOver === undefined) endFlight?.()
  }
  if (run.settling.size > 0) await Promise.all(run.settling.values())
}

/** An event that this process has in flight already is waited for in its turn. */
function startFlights({ isParking, processing }: EventRun, events: readonly Received[]): void {
  if (isParking) return
  const { inFlight } = processing
  for (const event of events) {
    const { id } = event.member.event
    if (event.hasKey && !inFlight.has(id)) event.endFlight = inFlight.start(id)
  }
}

async function claim(run: EventRun, leases: Leases, events: readonly Received[]): Promise<void> {
  const flying = events.filter(({ endFlight }) => endFlight !== undefined)
  if (flying.length === 0) return
  await claimEach(leases, flying)
  for (const event of flying) {
    const { claimed } = event
    if (isOver(run, event) || claimed?.kind !== 'outcome' || isHeldElsewhere(claimed)) continue
    void end(run, event, claimed.outcome)
  }
}

async function claimEach(leases: Leases, events: readonly Received[]): Promise<void> {
  const members = events.map(({ member }) => member)
  const claims = await claimLeases(leases, members)
  for (const [index, event] of events.entries()) {
    const claimed = claims[index]
    if (claimed === undefined) continue
    event.claimed = claimed
    if (claimed.kind === 'run') event.member = claimed.member
  }
}

function runAll(run: EventRun, events: readonly Received[]): Promise<unknown> {
  const [only] = events
  if (only === undefined) return Promise.resolve()
  if (events.length === 1) return start(run, only)
  // The second payload of a key may be the right one, so nothing of its lane overtakes it.
  const isConflicting = events.some(({ isOtherPayload }) => isOtherPayload)
  const eventOf = isConflicting ? ({ member }: Received) => member.event.id : undefined
  const lanes = toLanes(events, ({ member }) => member, eventOf)
  if (!isSharing(run)) return runLanes(run, lanes)
  const heads = lanes.map((lane) => readyHead(run, lane))
  const together = heads.flat().toSorted((a, b) => a.member.index - b.member.index)
  const rests = lanes.map((lane, n) => lane.slice(heads[n]?.length))
  const ready = rests.filter((_, n) => heads[n]?.length !== 0)
  const others = rests.filter((_, n) => heads[n]?.length === 0)
  const shared = runPart(run, together).then(() => runLanes(run, ready))
  return Promise.all([shared, runLanes(run, others)])
}

/** Runs lanes side by side. One that waits for another run takes no turn of those that are ready. */
function runLanes(run: EventRun, lanes: readonly Lane[]): Promise<unknown> {
  const { signals, stores } = run.processing
  const stop = signals.whenStopping
  const isLaneWaiting = (lane: Lane): boolean => lane.some((event) => isWaiting(run, event))
  const waiting = lanes.filter(isLaneWaiting)
  const ready = waiting.length === 0 ? lanes : lanes.filter((lane) => !isLaneWaiting(lane))
  return Promise.all([
    inTurns(ready, { width: stores.slots.size, stop }, (lane) => runLane(run, lane)),
    inTurns(waiting, { width: WAITING_LANES, stop }, (lane) => runLane(run, lane)),
  ])
}

async function runLane(run: EventRun, lane: Lane): Promise<void> {
  for (let left = lane; left.length > 0; ) {
    const part = isSharing(run) ? readyHead(run, left) : []
    if (part.length > 1) await runPart(run, part)
    else await runEvent(run, left[0] as Received)
    left = left.slice(Math.max(1, part.length))
  }
}

/** Whether events run together: in one transaction, or they are only stored. */
function isSharing({ isParking, processing }: EventRun): boolean {
  return isParking || processing.options.transaction === 'batch'
}

/** The first events of a lane, up to one that must wait or has no key. */
function readyHead(run: EventRun, lane: Lane): Lane {
  const end = lane.findIndex((event) => !event.hasKey || isWaiting(run, event))
  return end === -1 ? lane : lane.slice(0, end)
}

/** Whether the event waits for another run of it: one of another process, or one of this process. */
function isWaiting({ isParking }: EventRun, event: Received): boolean {
  const { claimed, endFlight, hasKey, isOtherPayload } = event
  if (!hasKey || event.isOver === true) return false
  if (isParking) return isOtherPayload === true
  return endFlight === undefined || (claimed !== undefined && isHeldElsewhere(claimed))
}

async function runPart(run: EventRun, events: readonly Received[]): Promise<void> {
  const open = events.filter((event) => !isOver(run, event))
  if (open.length === 0) return
  try {
    if (run.isParking) await parkEvents(run, open)
    else await runTogether(run, open)
  } catch (error) {
    failAll(run, open, error)
  }
}

async function runEvent(run: EventRun, event: Received): Promise<void> {
  if (isOver(run, event)) return
  try {
    await start(run, event)
  } catch (error) {
    failAll(run, [event], error)
  }
}

function start(run: EventRun, event: Received): Promise<unknown> {
  const { endFlight, hasKey } = event
  if (hasKey && run.isParking) return parkEvents(run, [event])
  return !hasKey || endFlight !== undefined
    ? runOne(run, event)
    : isFree(run, event).then((isRunning) => (isRunning ? runOne(run, event) : undefined))
}

/** Waits until this process has the event in flight no more, and claims it. Otherwise the event is deferred. */
async function isFree(run: EventRun, event: Received): Promise<boolean> {
  const { inFlight, options, stores } = run.processing
  const { id } = event.member.event
  // The run of another payload of the same call is over. Only its settlement may be left.
  await run.settling.get(id)
  if (!(await inFlight.waitFor(id, options.claimWaitMs))) {
    const delayMs = stores.engine?.heldBackoff.nextMs(id) ?? STORE_DOWN_MS
    void end(run, event, { kind: 'in-progress', delayMs, cause: 'in-flight-here' })
    return false
  }
  event.endFlight = inFlight.start(id)
  if (stores.leases !== undefined) await claimEach(stores.leases, [event])
  return true
}
