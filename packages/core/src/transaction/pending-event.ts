import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { CountedEvent } from '../model/inbox.ts'

/**
 * Where a member stands inside its slice: `fresh` nothing is known; `suspect` to be counted first; `read` to be
 * classified; `due` again; `alone`: due too, but its last attempt gave no verdict, or it is replayed.
 */
export type Standing = 'fresh' | 'suspect' | 'read' | 'due' | 'alone'

/** A member on its way through a slice. Mutable, and owned by that slice alone. */
export interface PendingEvent {
  readonly member: InFlightEvent
  standing: Standing
  counted: (CountedEvent & { readonly countedAtMs: number }) | undefined
  serializationFailures: number
  /** Its COMMIT got no answer, so it is claimed again, once. */
  commitUnknown: boolean
  reads: number
  /** Runs of the handler in this batch. */
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

/** Those of `some` that have an earlier one of their lane among the others of `all`. Both are in delivery order. */
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
