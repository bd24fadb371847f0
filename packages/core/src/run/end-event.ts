import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { unrecordedConflict } from '../lease/claim.ts'
import { completeLease } from '../lease/complete.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import { factsOf } from '../settlement/observe.ts'
import { copyOutcome, type Outcome } from '../settlement/outcome.ts'
import { storeFailure } from '../settlement/store-down.ts'
import { isSealedResult } from '../support/sealed-result.ts'
import { conflictOutcome } from '../transaction/stored-state.ts'
import { callAfterCommit, openedResult } from './after-commit.ts'
import type { Processing } from './processing.ts'
import type { Routed } from './route.ts'

/** Whether the event has its outcome. It gets one if its lane has stopped. */
export function isOver(processing: Processing, event: Routed): boolean {
  if (event.isOver === true) return true
  const outcome = processing.lanes.followerOutcome(event.member)
  if (outcome === undefined) return false
  void end(processing, event, outcome)
  return true
}

/** Defers the events after an error that is not about one of them. */
export function failAll(processing: Processing, events: readonly Routed[], error: unknown): void {
  const outcome = storeFailure(processing, error)
  for (const event of events) if (!isOver(processing, event)) void end(processing, event, outcome)
}

/** Steps 4 and 5, once for each event. The answer resolves when the lease store knows the outcome. */
export function end(
  processing: Processing,
  event: Routed,
  outcome: Outcome,
  handlerMs?: number | undefined,
): MaybeAsync<void> {
  if (event.isOver === true) return undefined
  event.isOver = true
  const { lanes, options, settling: all, stopping } = processing
  const { lane } = event.member
  const { id } = event.member.event
  lanes.note(event.member, outcome)
  // 4. Complete: tell the lease store the outcome, always after the commit.
  const { known, leases } = processing.stores
  known?.after(event, outcome)
  const completing =
    leases === undefined || event.member.lease === undefined
      ? undefined
      : completeLease(leases, event.member, outcome)
  const before = lane === undefined ? undefined : stopping.get(lane)
  const ready = before === undefined ? completing : Promise.all([before, completing])
  let settling: MaybeAsync<void> | undefined
  try {
    settling =
      ready === undefined
        ? settle(processing, event, { outcome, handlerMs })
        : ready.then(() => settle(processing, event, { outcome, handlerMs }))
  } finally {
    if (!(settling instanceof Promise)) event.endFlight?.()
  }
  if (settling instanceof Promise) {
    const settled = Promise.all([settling.finally(event.endFlight), all.get(id)])
    all.set(id, settled)
    const isNext = lanes.isStopped(lane) || options.afterCommit !== undefined
    if (lane !== undefined && isNext) stopping.set(lane, settled)
  }
  return completing
}

interface Ending {
  readonly outcome: Outcome
  readonly handlerMs: number | undefined
}

function settle(processing: Processing, event: Routed, ending: Ending): MaybeAsync<void> {
  const { outcome: given } = ending
  if (given.kind === 'duplicate' || given.kind === 'processed') {
    // Nothing is called for an event without a result.
    if (given.result !== undefined && isSealedResult(given.result)) {
      const opening = openedResult(processing, event.member, given)
      return opening.then((outcome) => settle(processing, event, { ...ending, outcome }))
    }
  }
  const last = callAfterCommit(processing, event.member, given)
  return last instanceof Promise
    ? last.then((outcome) => observe(processing, event, { ...ending, outcome }))
    : observe(processing, event, last === given ? ending : { ...ending, outcome: last })
}

/** 5. Observe: settlement, hook and log line, as soon as the outcome of this event is known. */
function observe(
  processing: Processing,
  event: Routed,
  { handlerMs, outcome }: Ending,
): MaybeAsync<void> {
  const { copies, hasKey, member } = event
  processing.observe(
    member.index,
    outcome,
    hasKey ? factsOf(member, handlerMs) : { handlerMs, type: member.type },
  )
  return copies.length === 0 ? undefined : endCopies(processing, event, outcome)
}

/** Gives the copies of an event their outcomes, based on the outcome of the leader. */
export async function endCopies(
  processing: Processing,
  { copies }: Routed,
  outcome: Outcome,
): Promise<void> {
  for (const member of copies) {
    processing.observe(member.index, await copyEnd(processing, member, outcome), factsOf(member))
  }
}

async function copyEnd(
  processing: Processing,
  member: InFlightEvent,
  outcome: Outcome,
): Promise<Outcome> {
  if (leaderConflicts(outcome)) return conflictOf(processing, member)
  if (outcome.kind !== 'processed' && outcome.kind !== 'duplicate') return copyOutcome(outcome)
  return callAfterCommit(processing, member, { kind: 'duplicate', result: outcome.result })
}

/** Each message that is refused for its payload is judged, and recorded, for itself. */
function leaderConflicts(outcome: Outcome): boolean {
  if (outcome.kind === 'dead') return outcome.reason === 'fingerprint-mismatch'
  return outcome.kind === 'conflict'
}

async function conflictOf(processing: Processing, member: InFlightEvent): Promise<Outcome> {
  const { engine } = processing.stores
  try {
    return await (engine === undefined
      ? unrecordedConflict(processing.options, member)
      : conflictOutcome(engine, member))
  } catch (error) {
    return storeFailure(processing, error)
  }
}
