import type { Lanes } from '../concurrency/lanes.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { outcomeWithoutVerdict } from '../handler/run-outcome.ts'
import { concernsStore, describeError, StoreUnavailableError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { DoneEvent } from '../model/inbox.ts'
import type { Release } from '../model/runtime.ts'
import type { DeferCause } from '../model/settlement.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Aboard } from './chain.ts'
import type { Engine } from './engine.ts'
import type { PendingEvent } from './pending-event.ts'
import { fromStoredState } from './stored-state.ts'

/** What a run of events is given. */
export interface BatchRun {
  readonly engine: Engine
  readonly signals: StopSignals
  readonly lanes: Lanes<Outcome>
  /** Called once per member, as soon as its outcome is known. */
  readonly onOutcome: (
    member: InFlightEvent,
    outcome: Outcome,
    handlerMs: number | undefined,
  ) => void
}

/** Events on their way through one run. Mutable: its last COMMIT may hand its slot to the next run. */
export interface Batch extends BatchRun {
  /** Released at the end. */
  slot: Release
  /** Given if the COMMIT of another run has begun the first transaction of this one. */
  readonly aboard: Aboard | undefined
  /** The members that have no outcome yet, in delivery order. */
  readonly pending: Set<PendingEvent>
}

export function endEvent(batch: Batch, pending: PendingEvent, outcome: Outcome): void {
  if (!batch.pending.delete(pending)) return
  const { member, handlerMs } = pending
  const { lanes } = batch
  batch.onOutcome(member, outcome, handlerMs)
  if (!lanes.isStopped(member.lane)) return
  for (const follower of [...batch.pending]) {
    const following = lanes.followerOutcome(follower.member)
    if (following !== undefined) endEvent(batch, follower, following)
  }
}

export function endAll(batch: Batch, members: readonly PendingEvent[], outcome: Outcome): void {
  for (const pending of members) endEvent(batch, pending, outcome)
}

/** Another run is in the way. The events are deferred, and nothing is counted. */
export function deferHeld(batch: Batch, members: readonly PendingEvent[], cause: DeferCause): void {
  for (const pending of members) {
    const delayMs = batch.engine.heldBackoff.nextMs(pending.member.event.id)
    endEvent(batch, pending, { kind: 'in-progress', delayMs, cause })
  }
}

/** The store failed, or an unexpected error occurred. The events are deferred, so nothing is lost. */
export function failBatch(batch: Batch, members: readonly PendingEvent[], error: unknown): void {
  const { engine } = batch
  if (concernsStore(error)) engine.breaker.failed(error)
  if (!(error instanceof StoreUnavailableError))
    engine.options.logger.error(
      { err: describeError(error) },
      'an event could not be processed and is deferred: check the store',
    )
  deferAll(batch, members, error)
}

/** Defers the members to a later delivery. */
export function deferAll(batch: Batch, members: readonly PendingEvent[], error: unknown): void {
  const { engine } = batch
  for (const pending of members) {
    const delayMs = engine.heldBackoff.nextMs(pending.member.event.id)
    const outcome: Outcome = pending.commitUnknown
      ? outcomeWithoutVerdict({ kind: 'commit-unknown', error })
      : { kind: 'store-down', delayMs, error, cause: 'store-error' }
    endEvent(batch, pending, outcome)
  }
}

/** Settles the members that are already done as duplicates. */
export async function endDuplicates(
  batch: Batch,
  members: readonly PendingEvent[],
  done: readonly (DoneEvent | undefined)[] = [],
): Promise<void> {
  for (const [index, pending] of members.entries()) {
    const known = done[index]
    if (known === undefined) continue
    const next = await fromStoredState(batch.engine, pending, known)
    if (next.kind === 'outcome') endEvent(batch, pending, next.outcome)
  }
}
