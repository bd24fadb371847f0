import { chunks } from '../concurrency/lanes.ts'
import type { Claimed, Leases } from '../lease/claim.ts'
import { isHeldElsewhere } from '../lease/wait-for-holder.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import { runBatch } from '../transaction/batch.ts'
import type { Engine } from '../transaction/engine.ts'
import { claimAgain, type EventRun, end, isOver } from './event-run.ts'
import type { Received } from './receive.ts'
import { runLeased } from './run-leased.ts'
import { runWithoutKey } from './run-unclaimed.ts'
import { takeSlot } from './take-slot.ts'

/** Maximum number of events in one shared transaction (design.md §9). */
const LARGEST_BATCH = 100

/** Step 3 for one event. */
export function runOne(run: EventRun, event: Received): Promise<unknown> {
  const { engine, leases } = run.processing.stores
  if (!event.hasKey) return runKeyless(run, event)
  if (engine === undefined) return runLeased(run, event)
  return leases === undefined || event.claimed === undefined
    ? runRows(run, engine, [event])
    : runClaimed(run, { engine, leases }, { event, claimed: event.claimed })
}

/** Step 3 for events that share a transaction. */
export async function runTogether(run: EventRun, events: readonly Received[]): Promise<void> {
  const { engine } = run.processing.stores
  if (engine === undefined) throw new Error('Only events of an inbox share a transaction.')
  for (const batch of chunks(events, LARGEST_BATCH)) {
    const open = batch.filter((event) => !isOver(run, event))
    if (open.length > 0) await runRows(run, engine, open)
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
  run: EventRun,
  { engine, leases }: StoresOfRow,
  { claimed, event }: { readonly event: Received; readonly claimed: Claimed },
): Promise<void> {
  const last = await claimAgain(run, leases, { event, claimed })
  // A caller waits for its answer. The process that holds the lease may be dead, and then the row is free.
  const asksRow = leases.options.callerRetries !== undefined && isHeldElsewhere(last)
  if (last.kind === 'outcome' && !asksRow) void end(run, event, last.outcome)
  // The lease store's fingerprint may come from a lost history. Only the row knows what the payload was.
  else await runRows(run, engine, [event])
}

function runRows(run: EventRun, engine: Engine, events: readonly Received[]): Promise<void> {
  const slot = engine.slots.tryAcquire()
  if (slot === undefined) return waitForSlot(run, engine, events)
  return runBatch(batchRunOf(run, engine, events), membersOf(events), slot)
}

async function waitForSlot(
  run: EventRun,
  engine: Engine,
  events: readonly Received[],
): Promise<void> {
  const { signals } = run.processing
  const { runtime } = engine.options
  const slot = await takeSlot({ slots: engine.slots, runtime, signals })
  if (typeof slot === 'function') {
    await runBatch(batchRunOf(run, engine, events), membersOf(events), slot)
    return
  }
  for (const event of events) if (!isOver(run, event)) void end(run, event, slot)
}

const membersOf = (events: readonly Received[]): readonly InFlightEvent[] =>
  events.map(({ member }) => member)

function batchRunOf(
  run: EventRun,
  engine: Engine,
  events: readonly Received[],
): Parameters<typeof runBatch>[0] {
  const { lanes, processing } = run
  const byMember = new Map(events.map((event) => [event.member, event]))
  return {
    ...{ engine, lanes, signals: processing.signals },
    onOutcome: (member, outcome, handlerMs) =>
      void end(run, byMember.get(member) as Received, outcome, handlerMs),
  }
}

async function runKeyless(run: EventRun, event: Received): Promise<void> {
  const { handlerMs, outcome } = await runWithoutKey(run.processing, event.member)
  await end(run, event, outcome, handlerMs)
}
