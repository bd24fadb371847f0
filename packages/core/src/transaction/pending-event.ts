import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { CountedEvent } from '../model/inbox.ts'

/**
 * How the next run of a member must start. `fresh`: nothing is known. `suspect`: to be counted first. `read`: to be
 * classified. `due`: to be counted and run. `alone`: due, but replayed or without a verdict of its last attempt.
 */
export type Standing = 'fresh' | 'suspect' | 'read' | 'due' | 'alone'

/** A member that its batch is processing. Mutable, and owned by that batch alone. */
export interface PendingEvent {
  readonly member: InFlightEvent
  standing: Standing
  counted: (CountedEvent & { readonly countedAtMs: number }) | undefined
  serializationFailures: number
  /** COMMIT got no answer, so the event is claimed once more. */
  commitUnknown: boolean
  reads: number
  /** Number of handler runs in this batch. */
  runs: number
  handlerMs: number | undefined
}

export function toPendingEvent(member: InFlightEvent): PendingEvent {
  return {
    member,
    standing: member.parked?.kind === 'event' ? 'read' : member.suspect ? 'suspect' : 'fresh',
    counted: undefined,
    serializationFailures: 0,
    commitUnknown: false,
    reads: 0,
    runs: 0,
    handlerMs: undefined,
  }
}

/** Those events of `some` that follow, in their lane, another event of `all`. Both lists are in delivery order. */
export function overtaking(
  all: Iterable<PendingEvent>,
  some: readonly PendingEvent[],
): readonly PendingEvent[] {
  const going = new Set(some)
  const blocked = new Set<string>()
  const early: PendingEvent[] = []
  for (const pending of all) {
    const { lane } = pending.member
    if (lane === undefined) continue
    if (!going.has(pending)) blocked.add(lane)
    else if (blocked.has(lane)) early.push(pending)
  }
  return early
}
