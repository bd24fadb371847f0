import type { OwnerToken } from './brands.ts'
import type { GuardEvent } from './delivery.ts'
import type { DeadLetterRef, IdentifiedEvent } from './inbox.ts'

/** An event in hand: identified, and claimed where there is a lease store. */
export interface InFlightEvent {
  readonly event: IdentifiedEvent
  readonly payload: unknown
  /** Members of one lane run in delivery order; without a lane, an event is on its own. */
  readonly lane: string | undefined
  /** It may have been begun before: its attempt is recorded before the run. */
  readonly suspect: boolean
  /** Runs from the store; its delivery is no broker's. The record to resolve is a refused message's. */
  readonly parked?: DeadLetterRef | undefined
  /** A stored event that today's options refuse: its run fails with this, the handler does not see it. */
  readonly refusal?: Error | undefined
  readonly lease?: MemberLease | undefined
  /** Of the lease store; the truth only without an inbox. */
  readonly leaseAttempt?: number | undefined
  /** Taken over without an inbox, and `onTakeover` has not answered: only another takeover may follow. */
  readonly isUndecided?: boolean | undefined
}

export interface MemberLease {
  readonly ownerToken: OwnerToken
  /** Aborted once the lease is lost. */
  readonly lost: AbortSignal
}

export function toGuardEvent(member: InFlightEvent, attempt: number): GuardEvent<unknown> {
  const { event, payload } = member
  return {
    ...event.delivery,
    payload,
    key: event.key,
    tenant: event.tenant,
    attempt,
    idempotencyKey: event.id,
  }
}
