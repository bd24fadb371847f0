import type { OwnerToken } from './brands.ts'
import type { DeadLetterRef } from './dead-letter.ts'
import {
  copyBody,
  type Delivery,
  type GuardEvent,
  ownGetter,
  unreservedHeaders,
  withGetters,
} from './delivery.ts'
import type { IdentifiedEvent } from './inbox.ts'

/** Times that only an observer asks for. Mutable: each step adds its own. */
export interface Timings {
  claimMs?: number
  commitMs?: number
}

/** An event in flight: identified, and claimed if there is a lease store. */
export interface InFlightEvent {
  /** The place of its delivery in the call. */
  readonly index: number
  readonly event: IdentifiedEvent
  readonly payload: unknown
  /** Of a guard with `on`: the name of its route. */
  readonly type?: string | undefined
  /** Members of one lane run in delivery order. Without a lane, the event is independent. */
  readonly lane: string | undefined
  /** The event may have been started before, so its attempt is recorded before the run. */
  readonly suspect: boolean
  /**
   * The event runs from the inbox, not from a broker's delivery. For a refused message, this is the record to resolve.
   */
  readonly parked?: DeadLetterRef | undefined
  /** The current options refuse this stored event. Its run fails with this error before the handler is called. */
  readonly refusal?: unknown
  readonly lease?: MemberLease | undefined
  /** The lease store's count. Authoritative only without an inbox. */
  readonly leaseAttempt?: number | undefined
  /** Taken over without an inbox, and `onTakeover` has not answered. Only another takeover may follow. */
  readonly isUndecided?: boolean | undefined
  /** The caller of `process` reads the handler's result, so a result that cannot be stored is an error. */
  readonly isResultRead?: boolean | undefined
  /** Where the body holds an integer that JavaScript rounded. */
  readonly rounded?: string | undefined
  /** Undefined if nothing observes. Copies of this object share it. */
  readonly timings?: Timings | undefined
}

/** Adds to a time of the events that are observed. */
export function addTime(
  members: readonly InFlightEvent[],
  name: keyof Timings,
  tookMs: number,
): void {
  for (const { timings } of members)
    if (timings !== undefined) timings[name] = (timings[name] ?? 0) + tookMs
}

export interface MemberLease {
  readonly ownerToken: OwnerToken
  /** Aborted when the lease is lost. */
  readonly lost: AbortSignal
}

/**
 * The event for one run of the handler. Headers, source, body and `producedAt` are copies, so changes by the handler reach
 * neither its next run nor the dead letter.
 */
export function toGuardEvent(
  member: InFlightEvent,
  attempt: number,
  payload: unknown = member.payload,
): GuardEvent<unknown> {
  const { event } = member
  const { delivery } = event
  const { contentType, contentEncoding, messageId, orderingKey } = delivery
  const { deliveryCount, redelivered, raw } = delivery
  const fields = {
    contentType,
    contentEncoding,
    messageId,
    orderingKey,
    deliveryCount,
    redelivered,
    raw,
    producedAt: delivery.producedAt && new Date(delivery.producedAt.getTime()),
    headers: unreservedHeaders(delivery.headers),
    source: { ...delivery.source },
    payload,
    type: member.type,
    key: event.key,
    tenant: event.tenant,
    attempt,
    idempotencyKey: event.id,
  }
  return withGetters<GuardEvent<unknown>>(fields, { delivery, body: undefined }, GETTERS)
}

interface Bytes {
  readonly delivery: Delivery
  body: Uint8Array | undefined
}

const GETTERS = [
  ['envelope', ownGetter(({ delivery }: Bytes) => delivery.envelope)],
  [
    'body',
    // Copied when it is first read, because most handlers never read the bytes.
    ownGetter((bytes: Bytes) => {
      bytes.body ??= copyBody(bytes.delivery)
      return bytes.body
    }),
  ],
] as const
