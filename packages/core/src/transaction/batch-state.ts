import { StoreUnavailableError } from '../model/errors.ts'
import type { Member, Pending } from '../model/in-flight-event.ts'
import type { DoneEvent } from '../model/inbox.ts'
import { followerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import type { Engine, StopSignals } from './engine.ts'
import { judge } from './stored-state.ts'
import { describe } from './verdict.ts'

export interface SliceRun {
  readonly engine: Engine
  readonly signals: StopSignals
  /** Called once per member, as soon as its outcome is known. */
  readonly settle: (member: Member, outcome: Outcome, handlerMs: number | undefined) => void
}

/** The members of a slice that have no outcome yet. */
export interface Slice {
  readonly run: SliceRun
  readonly pending: Set<Pending>
}

export function finish(slice: Slice, pending: Pending, outcome: Outcome): void {
  if (!slice.pending.delete(pending)) return
  const { member, handlerMs } = pending
  slice.run.settle(member, outcome, handlerMs)
  if (member.lane === undefined || !stopsLane(outcome)) return
  for (const follower of [...slice.pending]) {
    if (follower.member.lane === member.lane) finish(slice, follower, followerOutcome(outcome))
  }
}

export function finishAll(slice: Slice, members: readonly Pending[], outcome: Outcome): void {
  for (const pending of members) finish(slice, pending, outcome)
}

/** The store failed, or something nobody foresaw: nothing is settled, so nothing is lost. */
export function fault(slice: Slice, members: readonly Pending[], error: unknown): void {
  const { engine } = slice.run
  if (error instanceof StoreUnavailableError) engine.breaker.failed(error)
  else engine.options.logger.error({ err: describe(error) }, 'an event could not be processed')
  leave(slice, members, error)
}

/** Left to a later delivery. */
export function leave(slice: Slice, members: readonly Pending[], error: unknown): void {
  const { engine } = slice.run
  for (const pending of members) {
    const delayMs = engine.deferrals.nextMs(pending.member.event.id)
    const outcome: Outcome = pending.commitUnknown
      ? { kind: 'abandoned', reason: 'commit-unknown', error }
      : { kind: 'store-down', delayMs, error }
    finish(slice, pending, outcome)
  }
}

/** What is done is answered by that. */
export async function finishDone(
  slice: Slice,
  members: readonly Pending[],
  done: readonly (DoneEvent | undefined)[] = [],
): Promise<void> {
  for (const [index, pending] of members.entries()) {
    const known = done[index]
    if (known === undefined) continue
    const next = await judge(slice.run.engine, pending, known)
    if (next.kind === 'outcome') finish(slice, pending, next.outcome)
  }
}
