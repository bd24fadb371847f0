import { chunks } from '../concurrency/lanes.ts'
import type { Claimed, Leases } from '../lease/claim.ts'
import { isHeldElsewhere } from '../lease/wait-for-holder.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { runBatch } from '../transaction/batch.ts'
import type { Engine } from '../transaction/engine.ts'
import { claimAgain, type EventRun, end, isOver } from './event-run.ts'
import type { OpenLeases } from './open-stores.ts'
import { type Processing, storeFailure } from './processing.ts'
import type { Received } from './receive.ts'
import { takeSlot } from './take-slot.ts'
import { type Ended, runBesideOthers, runUnguarded, runWithoutClaim } from './unguarded.ts'
import { runLeaseAlone } from './without-inbox.ts'

/** Maximum number of events in one shared transaction (design.md §9). */
const LARGEST_BATCH = 100

/** Step 3 for one event. */
export function runOne(run: EventRun, event: Received): Promise<unknown> {
  const { engine, leases } = run.processing.stores
  if (!event.hasKey) return runWithoutKey(run, event)
  if (engine === undefined) return runLeaseAlone(run, event)
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
  // The lease store's fingerprint may come from a lost history. Only the row tells what the payload was.
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

async function runWithoutKey(run: EventRun, event: Received): Promise<void> {
  const { processing } = run
  const { handlerMs, outcome } = await runOrRemember(processing, event.member)
  await end(run, event, await recorded(processing, event.member, outcome), handlerMs)
}

/** The handler does not run again only because its dead letter could not be published. */
async function runOrRemember(processing: Processing, member: InFlightEvent): Promise<Ended> {
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
