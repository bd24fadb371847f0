import { chunks, inTurns, toLanes, WAITING_LANES } from '../concurrency/lanes.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { type Claimed, claimLeases, type Leases } from '../lease/claim.ts'
import { isHeldElsewhere } from '../lease/wait-for-holder.ts'
import type { Delivery } from '../model/delivery.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import { runBatch } from '../transaction/batch.ts'
import type { BatchRun } from '../transaction/batch-state.ts'
import { riderOf } from '../transaction/chain.ts'
import type { Engine } from '../transaction/engine.ts'
import { end, failAll, isOver } from './end-event.ts'
import { parkEvents } from './park-events.ts'
import { observeParts, type Parts } from './parts.ts'
import { LARGEST_BATCH, type Processing, STORE_DOWN_MS } from './processing.ts'
import { type Received, type ReceivedDeliveries, receive } from './receive.ts'
import { inHandPerSlot } from './resolve-options.ts'
import { claimAgain, runLeased } from './run-leased.ts'
import { isPlaced, runPlaced } from './run-placed.ts'
import { runWithoutKey } from './run-unclaimed.ts'
import { takeSlot } from './take-slot.ts'

type Lane = readonly Received[]

/** Takes deliveries through five steps: receive, claim, run, complete, observe. Never rejects. */
export function processDeliveries(
  processing: Processing,
  deliveries: readonly Delivery[],
): MaybeAsync<unknown> {
  // 1. Receive: decode, identify, record refused messages, group the copies of one event.
  const receiving = receive(processing, deliveries)
  return receiving instanceof Promise
    ? receiving.then((received) => processParts(processing, received))
    : processParts(processing, receiving)
}

function processParts(processing: Processing, received: ReceivedDeliveries): Promise<void> {
  const { parts } = received
  return parts === undefined
    ? processReceived(processing, received)
    : processItems(processing, received, parts)
}

async function processItems(
  processing: Processing,
  received: ReceivedDeliveries,
  parts: Parts,
): Promise<void> {
  const { idle, observe } = observeParts(processing, parts)
  await processReceived({ ...processing, observe }, received)
  await idle()
}

/** Steps 2 to 5 for messages that were received together. */
export async function processReceived(
  processing: Processing,
  { decided, events }: ReceivedDeliveries,
): Promise<void> {
  const { lanes, settling, stores } = processing
  // A message that could not be read holds the later events of its lane.
  for (const { index, key, lane, outcome } of decided) {
    processing.observe(index, outcome, { key })
    lanes.note({ index, lane }, outcome)
  }
  const open = decided.length === 0 ? events : events.filter((event) => !isOver(processing, event))
  try {
    // Records that are known by their place need no claim, unless something happens to them.
    const byRow = open.some(isPlaced) ? await runPlaced(processing, open) : open
    // 2. Claim: leases for all events in one round trip, if there is a lease store.
    startFlights(processing, byRow)
    const left = stores.engine === undefined ? byRow : recall(processing, stores.engine, byRow)
    if (stores.leases !== undefined) await claim(processing, stores.leases, left)
    // 3. Run: the event's row, the handler and the commit in one transaction. Steps 4 and 5 follow in `end`.
    const [only] = left
    if (left.length === 1 && only !== undefined) await runOne(processing, only)
    else await runAll(processing, left)
  } catch (error) {
    // Only a defect of onceward gets here.
    failAll(processing, open, error)
  } finally {
    // The next delivery of an event without an outcome does not wait for a finished run.
    for (const { endFlight, isOver } of open) if (isOver === undefined) endFlight?.()
  }
  if (settling.size > 0) await Promise.all(settling.values())
}

/** An event that this process has in flight already is waited for in its turn. */
function startFlights({ inFlight, isParking }: Processing, events: readonly Received[]): void {
  if (isParking) return
  for (const event of events) {
    const { id } = event.member.event
    if (event.hasKey && !inFlight.has(id)) event.endFlight = inFlight.start(id)
  }
}

/** Ends copies of what this process has seen done, and answers the other events. */
function recall(
  processing: Processing,
  engine: Engine,
  events: readonly Received[],
): readonly Received[] {
  let isAny = false
  for (const event of events) {
    if (event.endFlight !== undefined && isRecalled(processing, engine, event)) isAny = true
  }
  return isAny ? events.filter((event) => event.isRecalled !== true) : events
}

function isRecalled(processing: Processing, { seenDone }: Engine, event: Received): boolean {
  const { member } = event
  event.history = seenDone.history
  const known = member.parked === undefined ? seenDone.recall(member.event) : undefined
  if (known === undefined) return false
  event.isRecalled = true
  void end(processing, event, { kind: 'duplicate', result: known.result })
  return true
}

async function claim(
  processing: Processing,
  leases: Leases,
  events: readonly Received[],
): Promise<void> {
  const flying = events.filter((event) => event.endFlight !== undefined && !isSpared(leases, event))
  if (flying.length === 0) return
  await claimEach(leases, flying)
  for (const event of flying) {
    const { claimed } = event
    if (isOver(processing, event) || claimed?.kind !== 'outcome' || isHeldElsewhere(claimed))
      continue
    void end(processing, event, claimed.outcome)
  }
}

/** Whether the event needs no claim. What remembers it is of the history before its transaction. */
function isSpared({ byNeed }: Leases, event: Received): boolean {
  const remember = byNeed?.spares(event.member)
  if (remember === undefined) return false
  event.remember = remember
  return true
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

function runAll(processing: Processing, events: readonly Received[]): Promise<unknown> {
  // Most calls: all of their events run together, in the order in which they came.
  if (isSharing(processing) && readyHead(processing, events) === events) {
    return runPart(processing, events)
  }
  // The second payload of a key may be the right one, so nothing of its lane overtakes it.
  const isConflicting = events.some(({ isOtherPayload }) => isOtherPayload)
  const eventOf = isConflicting ? ({ member }: Received) => member.event.id : undefined
  const lanes = toLanes(events, ({ member }) => member, eventOf)
  if (!isSharing(processing)) return runLanes(processing, lanes)
  const heads = lanes.map((lane) => readyHead(processing, lane))
  const together = heads.flat().toSorted((a, b) => a.member.index - b.member.index)
  const rests = lanes.map((lane, n) => lane.slice(heads[n]?.length))
  const ready = rests.filter((_, n) => heads[n]?.length !== 0)
  const others = rests.filter((_, n) => heads[n]?.length === 0)
  const shared = runPart(processing, together).then(() => runLanes(processing, ready))
  return Promise.all([shared, runLanes(processing, others)])
}

/** Runs lanes side by side. One that waits for another run takes no turn of those that are ready. */
function runLanes(processing: Processing, lanes: readonly Lane[]): Promise<unknown> {
  const { options, signals, stores } = processing
  const width = stores.slots.size * inHandPerSlot(options)
  const stop = signals.whenStopping
  const isLaneWaiting = (lane: Lane): boolean => lane.some((event) => isWaiting(processing, event))
  const waiting = lanes.filter(isLaneWaiting)
  const ready = waiting.length === 0 ? lanes : lanes.filter((lane) => !isLaneWaiting(lane))
  return Promise.all([
    inTurns(ready, { width, stop }, (lane) => runLane(processing, lane)),
    inTurns(waiting, { width: WAITING_LANES, stop }, (lane) => runLane(processing, lane)),
  ])
}

async function runLane(processing: Processing, lane: Lane): Promise<void> {
  for (let left = lane; left.length > 0; ) {
    const part = isSharing(processing) ? readyHead(processing, left) : []
    if (part.length > 1) await runPart(processing, part)
    else await runEvent(processing, left[0] as Received)
    left = left.slice(Math.max(1, part.length))
  }
}

/** Whether events run together: in one transaction, or they are only stored. */
function isSharing({ isParking, options }: Processing): boolean {
  return isParking || options.transaction === 'batch'
}

/** The first events of a lane, up to one that must wait or has no key. */
function readyHead(processing: Processing, lane: Lane): Lane {
  const end = lane.findIndex((event) => !event.hasKey || isWaiting(processing, event))
  return end === -1 ? lane : lane.slice(0, end)
}

/** Whether the event waits for another run of it: one of another process, or one of this process. */
function isWaiting({ isParking }: Processing, event: Received): boolean {
  const { claimed, endFlight, hasKey, isOtherPayload } = event
  if (!hasKey || event.isOver === true) return false
  if (isParking) return isOtherPayload === true
  return endFlight === undefined || (claimed !== undefined && isHeldElsewhere(claimed))
}

async function runPart(processing: Processing, events: readonly Received[]): Promise<void> {
  const open = events.filter((event) => !isOver(processing, event))
  if (open.length === 0) return
  try {
    if (processing.isParking) await parkEvents(processing, open)
    else await runTogether(processing, open)
  } catch (error) {
    failAll(processing, open, error)
  }
  if (processing.options.afterCommit !== undefined) await afterCommits(processing, open)
}

async function runEvent(processing: Processing, event: Received): Promise<void> {
  if (isOver(processing, event)) return
  try {
    await runOne(processing, event)
  } catch (error) {
    failAll(processing, [event], error)
  }
  if (processing.options.afterCommit !== undefined) await afterCommits(processing, [event])
}

/** The next event of a lane starts after `afterCommit` of the one before it, and no more calls run than handlers. */
async function afterCommits({ settling }: Processing, events: readonly Received[]): Promise<void> {
  await Promise.all(events.map(({ member }) => settling.get(member.event.id)))
}

/** Waits until this process has the event in flight no more, and claims it. Otherwise the event is deferred. */
async function isFree(processing: Processing, event: Received): Promise<boolean> {
  const { inFlight, options, settling, stores } = processing
  const { id } = event.member.event
  // The run of another payload of the same call is over. Only its settlement may be left.
  await settling.get(id)
  if (!(await inFlight.waitFor(id, options.claimWaitMs))) {
    const delayMs = stores.engine?.heldBackoff.nextMs(id) ?? STORE_DOWN_MS
    void end(processing, event, { kind: 'in-progress', delayMs, cause: 'in-flight-here' })
    return false
  }
  event.endFlight = inFlight.start(id)
  if (stores.engine !== undefined && isRecalled(processing, stores.engine, event)) return false
  if (stores.leases !== undefined) await claimEach(stores.leases, [event])
  return true
}

/** Step 3 for one event, with the strategy that fits it: none without a key, the row, or the lease alone. */
function runOne(processing: Processing, event: Received): Promise<unknown> {
  const { claimed, endFlight, hasKey } = event
  const { engine, leases } = processing.stores
  if (!hasKey) return runKeyless(processing, event)
  if (processing.isParking) return parkEvents(processing, [event])
  if (endFlight === undefined) return waitAndRun(processing, event)
  if (engine === undefined) return runLeased(processing, event)
  return leases === undefined || claimed === undefined
    ? runRows(processing, engine, [event])
    : runClaimed(processing, { engine, leases }, { event, claimed })
}

async function waitAndRun(processing: Processing, event: Received): Promise<void> {
  if (await isFree(processing, event)) await runOne(processing, event)
}

/** Step 3 for events that share a transaction. */
async function runTogether(processing: Processing, events: readonly Received[]): Promise<void> {
  const { engine } = processing.stores
  if (engine === undefined) throw new Error('Only events of an inbox share a transaction.')
  for (const batch of chunks(events, LARGEST_BATCH)) {
    const open = batch.filter((event) => !isOver(processing, event))
    if (open.length > 0) await runRows(processing, engine, open)
  }
}

interface StoresOfRow {
  readonly engine: Engine
  readonly leases: Leases
}

/**
 * An event that another process holds is waited for. Postgres decides about one that the lease store does not report as
 * done, and also about a lease that does not end while a caller waits.
 */
async function runClaimed(
  processing: Processing,
  { engine, leases }: StoresOfRow,
  { claimed, event }: { readonly event: Received; readonly claimed: Claimed },
): Promise<void> {
  const last = await claimAgain(processing, leases, { event, claimed })
  // A caller waits for its answer. The process that holds the lease may be dead, and then the row is free.
  const asksRow = leases.options.callerRetries !== undefined && isHeldElsewhere(last)
  if (last.kind === 'outcome' && !asksRow) void end(processing, event, last.outcome)
  // The lease store's fingerprint may come from a lost history. Only the row knows what the payload was.
  else await runRows(processing, engine, [event])
}

function runRows(
  processing: Processing,
  engine: Engine,
  events: readonly Received[],
): Promise<void> {
  const run = batchRunOf(processing, engine, events)
  const members = events.map(({ member }) => member)
  const slot = engine.slots.tryAcquire()
  return slot === undefined ? waitForSlot(run, members) : runBatch(run, members, { slot })
}

function waitForSlot(run: BatchRun, members: readonly InFlightEvent[]): Promise<void> {
  const { engine, onOutcome, signals } = run
  const { runtime } = engine.options
  const rider = riderOf(run, members)
  return takeSlot({ slots: engine.slots, runtime, signals, ticket: rider }).then((slot) => {
    if (typeof slot === 'function') return runBatch(run, members, { slot, aboard: rider?.aboard })
    for (const member of members) onOutcome(member, slot, undefined)
    return undefined
  })
}

function batchRunOf(processing: Processing, engine: Engine, events: readonly Received[]): BatchRun {
  const byMember = new Map(events.map((event) => [event.member, event]))
  return {
    ...{ engine, lanes: processing.lanes, signals: processing.signals },
    onOutcome: (member, outcome, handlerMs) =>
      void end(processing, byMember.get(member) as Received, outcome, handlerMs),
  }
}

async function runKeyless(processing: Processing, event: Received): Promise<void> {
  const { handlerMs, outcome } = await runWithoutKey(processing, event.member)
  await end(processing, event, outcome, handlerMs)
}
