import { chunks, inTurns, toLanes, WAITING_LANES } from '../concurrency/lanes.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { Claimed, Leases } from '../lease/claim.ts'
import { isHeldElsewhere, waitForHolder } from '../lease/wait-for-holder.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import { laneFollowerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import { runBatch } from '../transaction/batch.ts'
import type { Engine } from '../transaction/engine.ts'
import { takeSlot } from './take-slot.ts'

/** Maximum number of events in one shared transaction (design.md §9). */
const LARGEST_BATCH = 100

export interface InboxRun {
  readonly engine: Engine
  readonly leases: Leases | undefined
  readonly signals: StopSignals
  /** Called once for each event. */
  readonly onOutcome: (
    event: InFlightEvent,
    outcome: Outcome,
    handlerMs: number | undefined,
  ) => void
}

/**
 * Step 3 for events whose effects are in the inbox's database.
 *
 * @param claims - Undefined without a lease store. An event that the lease store reports as done is settled as a
 * duplicate. An event that another process holds is waited for together with its lane. Postgres decides about all
 * others, and also about a lease that does not end while a caller waits.
 */
export function runWithInbox(
  run: InboxRun,
  members: readonly InFlightEvent[],
  claims: readonly Claimed[] | undefined,
): Promise<unknown> {
  const { leases } = run
  if (leases === undefined || claims === undefined) return runEvents(run, members)
  const entries = members.map((member, index) => ({ member, claimed: claims[index] as Claimed }))
  const isWaiting = ({ claimed }: Entry): boolean => isHeldElsewhere(claimed)
  if (!entries.some(isWaiting)) return runEvents(run, concludeClaimed(run, entries))
  const lanes = toLanes(entries, ({ member }) => member.lane)
  const waiting = lanes.filter((lane) => lane.some(isWaiting))
  const free = lanes.filter((lane) => !lane.some(isWaiting)).flat()
  return Promise.all([
    runEvents(run, concludeClaimed(run, free)),
    inTurns(waiting, { width: WAITING_LANES, stop: run.signals.whenStopping }, (lane) =>
      waitAndRun(run, leases, lane),
    ),
  ])
}

function runEvents(run: InboxRun, members: readonly InFlightEvent[]): Promise<unknown> {
  if (members.length === 1) return runInSlot(run, members)
  if (run.engine.options.transaction === 'batch') return runInBatches(run, members)
  const lanes = toLanes(members, ({ lane }) => lane)
  const [only] = lanes
  return only !== undefined && lanes.length === 1
    ? runLane(run, only)
    : inTurns(lanes, { width: run.engine.slots.size, stop: run.signals.whenStopping }, (lane) =>
        runLane(run, lane),
      )
}

async function runInBatches(run: InboxRun, members: readonly InFlightEvent[]): Promise<void> {
  for (const batch of chunks(members, LARGEST_BATCH)) await runInSlot(run, batch)
}

/** Runs one transaction per event, in delivery order. */
function runLane(run: InboxRun, lane: readonly InFlightEvent[]): Promise<void> {
  if (lane.length === 1) return runInSlot(run, lane)
  return inOrder(run, lane, (member, stoppable) => runInSlot(stoppable, [member]))
}

function runInSlot(run: InboxRun, batch: readonly InFlightEvent[]): Promise<void> {
  const slot = run.engine.slots.tryAcquire()
  return slot === undefined ? waitForSlot(run, batch) : runBatch(run, batch, slot)
}

async function waitForSlot(run: InboxRun, batch: readonly InFlightEvent[]): Promise<void> {
  const { engine, signals } = run
  const { runtime } = engine.options
  const slot = await takeSlot({ slots: engine.slots, runtime, signals })
  if (typeof slot === 'function') return runBatch(run, batch, slot)
  for (const member of batch) run.onOutcome(member, slot, undefined)
}

/** Runs the events one after the other. The lane stops at its first defer or abandon. */
async function inOrder<Each extends InFlightEvent | Entry>(
  run: InboxRun,
  lane: readonly Each[],
  runOne: (each: Each, stoppable: InboxRun) => Promise<void>,
): Promise<void> {
  let stoppedBy: Outcome | undefined
  const onOutcome: InboxRun['onOutcome'] = (event, outcome, handlerMs) => {
    if (stopsLane(outcome)) stoppedBy = outcome
    run.onOutcome(event, outcome, handlerMs)
  }
  const stoppable = { ...run, onOutcome }
  for (const each of lane) {
    if (stoppedBy === undefined) await runOne(each, stoppable)
    else run.onOutcome(heldOf(each), laneFollowerOutcome(stoppedBy), undefined)
  }
}

/** An event and the lease store's answer about it. */
interface Entry {
  readonly member: InFlightEvent
  readonly claimed: Claimed
}

/** The event with the lease that was taken for it, so that its outcome releases the lease. */
function heldOf(each: InFlightEvent | Entry): InFlightEvent {
  if ('event' in each) return each
  return each.claimed.kind === 'run' ? each.claimed.member : each.member
}

/** Runs a lane in order and waits for each event that another process holds. */
function waitAndRun(run: InboxRun, leases: Leases, lane: readonly Entry[]): Promise<void> {
  return inOrder(run, lane, async ({ member, claimed: first }, stoppable) => {
    const last = await waitForHolder(leases, member, { claimed: first, signals: run.signals })
    // A caller waits for its answer. The process that holds the lease may be dead, and then nobody holds the row.
    const asksRow = leases.options.callerRetries !== undefined && isHeldElsewhere(last)
    const claimed: Claimed = asksRow ? { kind: 'run', member, takeover: false } : last
    await runEvents(stoppable, concludeClaimed(stoppable, [{ member, claimed }]))
  })
}

/** Reports the outcomes that the lease store already knows. Returns the events that must run. */
function concludeClaimed(run: InboxRun, entries: readonly Entry[]): readonly InFlightEvent[] {
  const running: InFlightEvent[] = []
  const stopped = new Map<string, Outcome>()
  for (const entry of entries) {
    const { member, claimed } = entry
    const before = member.lane === undefined ? undefined : stopped.get(member.lane)
    if (before !== undefined) run.onOutcome(heldOf(entry), laneFollowerOutcome(before), undefined)
    // The lease store's fingerprint may come from a lost history. Only the row tells what the payload was.
    else if (claimed.kind !== 'outcome') running.push(heldOf(entry))
    else {
      const { outcome } = claimed
      if (member.lane !== undefined && stopsLane(outcome)) stopped.set(member.lane, outcome)
      run.onOutcome(member, outcome, undefined)
    }
  }
  return running
}
