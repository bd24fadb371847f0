import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { EventId } from '../model/brands.ts'
import type { GuardEvent } from '../model/delivery.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { BeginClaim, CountedEvent, IdentifiedEvent } from '../model/inbox.ts'

/**
 * How the next run of a member must start. `fresh`: nothing is known. `suspect`: to be counted first. `read`: to be
 * classified. `due`: to be counted and run. `alone`: due, but replayed or without a verdict of its last attempt.
 */
export type Phase = 'fresh' | 'suspect' | 'read' | 'due' | 'alone'

/** A member that its batch is processing. Mutable, and owned by that batch alone. */
export interface PendingEvent {
  readonly member: InFlightEvent
  phase: Phase
  counted: (CountedEvent & { readonly countedAtMs: number }) | undefined
  /** Given if nothing of the event is stored: the attempt of its run. */
  readonly attempt?: number | undefined
  serializationFailures: number
  /** COMMIT got no answer, so the event is claimed once more. */
  commitUnknown: boolean
  reads: number
  /** Number of handler runs in this batch. */
  runs: number
  handlerMs: number | undefined
}

/** Whether its first phase is `fresh`. */
export const isFresh = ({ parked, suspect }: InFlightEvent): boolean =>
  parked?.kind !== 'event' && !suspect

export function toPendingEvent(member: InFlightEvent): PendingEvent {
  return {
    member,
    phase: member.parked?.kind === 'event' ? 'read' : member.suspect ? 'suspect' : 'fresh',
    counted: undefined,
    serializationFailures: 0,
    commitUnknown: false,
    reads: 0,
    runs: 0,
    handlerMs: undefined,
  }
}

/** The attempt that the handler sees. */
export const attemptOf = ({ attempt = 1, counted }: PendingEvent): number =>
  counted?.attempt ?? attempt

/** The first run gets the payload from step 1. Each further run gets a newly decoded payload. */
export function eventFor(
  engine: { readonly decodeAgain: (event: InFlightEvent) => MaybeAsync<unknown> },
  pending: PendingEvent,
  attempt: number,
): MaybeAsync<GuardEvent<unknown>> {
  const { member } = pending
  pending.runs += 1
  if (pending.runs === 1 || member.refusal !== undefined) return toGuardEvent(member, attempt)
  return andThen(engine.decodeAgain(member), (payload) => toGuardEvent(member, attempt, payload))
}

export const laneOf = ({ member: { lane } }: PendingEvent): string | undefined => lane

/** What the inbox is asked to claim where rows are the identity of the members. */
export function claimOf(members: readonly PendingEvent[]): BeginClaim {
  const events: IdentifiedEvent[] = []
  const counted: CountedEvent[] = []
  for (const pending of members) {
    events.push(pending.member.event)
    if (pending.counted !== undefined) counted.push(pending.counted)
  }
  return counted.length > 0 ? { kind: 'counted', events: counted } : { kind: 'fresh', events }
}

/** The members that were claimed, and the others. */
export function divided(
  members: readonly PendingEvent[],
  ids: ReadonlySet<EventId>,
): readonly [claimed: readonly PendingEvent[], unclaimed: readonly PendingEvent[]] {
  const claimed: PendingEvent[] = []
  const unclaimed: PendingEvent[] = []
  for (const pending of members) {
    if (ids.has(pending.member.event.id)) claimed.push(pending)
    else unclaimed.push(pending)
  }
  return [claimed, unclaimed]
}
