import { ConfigurationError } from '@onceward/core'
import { dueNow } from '@onceward/core/adapter'
import type {
  BeginClaim,
  ConsumerRegistration,
  DeadLetterRef,
  DoneEvent,
  DueEvent,
  IdentifiedEvent,
  Known,
  OwnerToken,
} from '@onceward/core/ports'
import { type InboxKeys, nameOfEvent } from './keys.ts'
import {
  deliveryOf,
  identityOf,
  type Refused,
  type Stored,
  storedDelivery,
  type Trouble,
  type TroubleDetails,
} from './record.ts'
import type { RowClaim } from './transaction.ts'

export function toClaims(claim: BeginClaim, keys: InboxKeys): readonly RowClaim[] {
  const rowOf = ({ fingerprint, id }: IdentifiedEvent, counted?: OwnerToken): RowClaim => {
    const name = nameOfEvent(id)
    return { id, fingerprint, name, pair: keys.pair(name), counted }
  }
  switch (claim.kind) {
    case 'fresh':
      return claim.events.map((event) => rowOf(event))
    case 'counted':
      return claim.events.map(({ event, token }) => rowOf(event, token))
    case 'none':
      return []
    case 'move':
      throw new ConfigurationError('A Redis inbox keeps no offsets. Use a Postgres inbox.')
    default:
      return claim satisfies never
  }
}

export const doneOnly = (known: Known): DoneEvent | undefined =>
  known.kind === 'done' ? known : undefined

export const isTrouble = (stored: Stored): stored is Trouble =>
  stored.kind === 'running' || stored.kind === 'waiting' || stored.kind === 'dead'

export const isLetter = (stored: Stored): stored is Trouble | Refused =>
  stored.kind === 'dead' || stored.kind === 'refused'

export function firstDetails(
  { delivery, fingerprint, id, key, tenant }: IdentifiedEvent,
  { consumer }: ConsumerRegistration,
  nowMs: number,
): TroubleDetails {
  return {
    ...{ consumer, id, key, tenant, fingerprint: String(fingerprint) },
    ...{ delivery: storedDelivery(delivery), firstFailedAtMs: nowMs, lastFailedAtMs: nowMs },
  }
}

export function dueEvent(stored: Stored, ref: DeadLetterRef, nowMs: number): readonly DueEvent[] {
  if (stored.kind === 'refused') {
    return stored.parked ? [{ ref, what: 'run', delivery: deliveryOf(stored.delivery) }] : []
  }
  const what = dueNow(stored, nowMs)
  if (what === undefined || !isTrouble(stored)) return []
  return [{ ref, what, delivery: deliveryOf(stored.delivery), identity: identityOf(stored) }]
}
