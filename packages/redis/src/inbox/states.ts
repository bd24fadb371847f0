import { ConfigurationError } from '@onceward/core'
import { isOwnerLive } from '@onceward/core/adapter'
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
} from './record.ts'
import type { RowClaim } from './transaction.ts'

export const UNPUBLISHED = { published: false, publishing: undefined } as const

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

export const isOwned = (stored: Stored, token: OwnerToken): stored is Trouble =>
  stored.kind === 'running' && stored.token === token

export const isLetter = (stored: Stored): stored is Trouble | Refused =>
  stored.kind === 'dead' || stored.kind === 'refused'

export function firstTrouble(
  { delivery, fingerprint, id, key, tenant }: IdentifiedEvent,
  { consumer }: ConsumerRegistration,
  nowMs: number,
): Trouble {
  return {
    ...{ kind: 'waiting', consumer, id, key, tenant, fingerprint: String(fingerprint) },
    ...{ delivery: storedDelivery(delivery), attempt: 0, noVerdicts: 0 },
    ...{ countedAtMs: 0, nextTryAtMs: 0, firstFailedAtMs: nowMs, lastFailedAtMs: nowMs },
    ...{ parked: false, alone: false, published: false },
  }
}

export function dueEvent(stored: Stored, ref: DeadLetterRef, nowMs: number): readonly DueEvent[] {
  if (stored.kind === 'absent' || stored.kind === 'done' || !stored.parked) return []
  const delivery = deliveryOf(stored.delivery)
  if (stored.kind === 'refused') return [{ ref, what: 'run', delivery }]
  const identity = identityOf(stored)
  const isToRun =
    (stored.kind === 'waiting' && stored.nextTryAtMs <= nowMs) ||
    (stored.kind === 'running' && !isOwnerLive(nowMs - stored.countedAtMs))
  if (isToRun) return [{ ref, what: 'run', delivery, identity }]
  const isToPublish =
    stored.kind === 'dead' && !stored.published && (stored.publishing?.untilMs ?? 0) <= nowMs
  return isToPublish ? [{ ref, what: 'publish', delivery, identity }] : []
}
