import type { Lanes } from '../concurrency/lanes.ts'
import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Claimed, Leases } from '../lease/claim.ts'
import { completeLease } from '../lease/complete.ts'
import { isHeldElsewhere, waitForHolder } from '../lease/wait-for-holder.ts'
import type { EventId } from '../model/brands.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { concludeCopies, tellDuplicate } from './copies.ts'
import { factsOf, type Processing, storeFailure } from './processing.ts'
import type { Received } from './receive.ts'

/** The events of one call on their way through the steps 2 to 5. */
export interface EventRun {
  readonly processing: Processing
  readonly lanes: Lanes<Outcome>
  /** The events are only stored. They run later. */
  readonly isParking: boolean
  /** Settlements that wait for the lease store or for copies, by event. */
  readonly settling: Map<EventId, Promise<unknown>>
  /** The same for a lane that has stopped: the settlement that the next one of the lane follows. */
  readonly stopping: Map<string, Promise<unknown>>
}

/** Claims an event that another process holds again, for a short time. */
export async function claimAgain(
  { processing: { signals } }: EventRun,
  leases: Leases,
  { claimed, event }: { readonly event: Received; readonly claimed: Claimed },
): Promise<Claimed> {
  if (!isHeldElsewhere(claimed)) return claimed
  const last = await waitForHolder(leases, event.member, { claimed, signals })
  if (last.kind === 'run') event.member = last.member
  return last
}

/** Whether the event has its outcome. It gets one if its lane has stopped. */
export function isOver(run: EventRun, event: Received): boolean {
  if (event.isOver === true) return true
  const outcome = run.lanes.followerOutcome(event.member)
  if (outcome === undefined) return false
  void end(run, event, outcome)
  return true
}

/** Defers the events after an error that is not about one of them. */
export function failAll(run: EventRun, events: readonly Received[], error: unknown): void {
  const outcome = storeFailure(run.processing, error)
  for (const event of events) if (!isOver(run, event)) void end(run, event, outcome)
}

/** Steps 4 and 5, once for each event. The answer resolves when the lease store knows the outcome. */
export function end(
  run: EventRun,
  event: Received,
  outcome: Outcome,
  handlerMs?: number | undefined,
): MaybeAsync<void> {
  if (event.isOver === true) return undefined
  event.isOver = true
  const { lanes, settling: all, stopping } = run
  const { lane } = event.member
  const { id } = event.member.event
  lanes.note(event.member, outcome)
  // 4. Complete: tell the lease store the outcome, always after the commit.
  const completing = complete(run.processing, event, outcome)
  const before = lane === undefined ? undefined : stopping.get(lane)
  const ready = before === undefined ? completing : Promise.all([before, completing])
  let settling: MaybeAsync<void> | undefined
  try {
    settling = andThen<unknown, void>(ready, () =>
      observe(run.processing, event, { outcome, handlerMs }),
    )
  } finally {
    if (!(settling instanceof Promise)) event.endFlight?.()
  }
  if (settling instanceof Promise) {
    const settled = Promise.all([settling.finally(event.endFlight), all.get(id)])
    all.set(id, settled)
    if (lane !== undefined && lanes.isStopped(lane)) stopping.set(lane, settled)
  }
  return completing
}

function complete(
  processing: Processing,
  { member }: Received,
  outcome: Outcome,
): MaybeAsync<void> {
  const { leases } = processing.stores
  const completing = leases === undefined ? undefined : completeLease(leases, member, outcome)
  return outcome.kind === 'duplicate'
    ? andThen(completing, () => tellDuplicate(processing, member, outcome.result))
    : completing
}

interface Ending {
  readonly outcome: Outcome
  readonly handlerMs: number | undefined
}

/** 5. Observe: settlement, hook and log line, as soon as the outcome of this event is known. */
function observe(
  processing: Processing,
  event: Received,
  { handlerMs, outcome }: Ending,
): MaybeAsync<void> {
  const { copies, hasKey, member } = event
  processing.observe(member.index, outcome, hasKey ? factsOf(member, handlerMs) : { handlerMs })
  return copies.length === 0 ? undefined : concludeCopies(processing, event, outcome)
}
