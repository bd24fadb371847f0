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

/**
 * The event as one run of the handler gets it. Headers, source and body are its own: what a handler changes must reach
 * neither its next run nor the dead letter.
 */
export function toGuardEvent(
  member: InFlightEvent,
  attempt: number,
  payload: unknown = member.payload,
): GuardEvent<unknown> {
  const { event } = member
  const { body, headers, source } = event.delivery
  let ownBody: Uint8Array | undefined
  return {
    ...event.delivery,
    headers: { ...headers },
    source: { ...source },
    // Copied when it is read: most handlers never look at the bytes. The species of a Buffer is a Buffer.
    get body() {
      ownBody ??= Uint8Array.prototype.slice.call(body)
      return ownBody
    },
    payload,
    key: event.key,
    tenant: event.tenant,
    attempt,
    idempotencyKey: event.id,
  }
}
