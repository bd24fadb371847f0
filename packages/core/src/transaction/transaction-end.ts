import type { EventId, Json } from '../model/brands.ts'
import type { DoneEvent, InboxTransaction } from '../model/inbox.ts'
import type { PendingEvent } from './pending-event.ts'

/** Why a transaction failed. Nothing of it is committed, unless the kind is `ended`. */
export type TransactionFailure =
  /** A verdict about `pending`. Undefined means that the verdict is about the whole part. */
  | {
      readonly kind: 'handler'
      readonly pending: PendingEvent | undefined
      readonly error: unknown
    }
  /** The handler asked to come back later. `pending` is undefined if that is about the whole part. */
  | {
      readonly kind: 'deferred'
      readonly pending: PendingEvent | undefined
      readonly delayMs: number
    }
  /** Several members together used up the transaction's time. */
  | { readonly kind: 'budget' }
  /** The next member would see settings that a member may have changed. */
  | { readonly kind: 'settings' }
  | { readonly kind: 'serialization'; readonly error: unknown }
  /** The connection or the server failed. This says nothing about the events. */
  | { readonly kind: 'store'; readonly error: unknown }
  | { readonly kind: 'lease-lost'; readonly pending: PendingEvent; readonly error: unknown }
  | { readonly kind: 'drained'; readonly ended: boolean }
  /** A handler ended the transaction itself. The first `ran` members have run. */
  | { readonly kind: 'ended'; readonly ran: number; readonly error: unknown }
  | { readonly kind: 'not-replicated'; readonly error: unknown }
  | { readonly kind: 'commit-unknown'; readonly error: unknown }

export type TransactionEnd =
  | { readonly kind: 'held' }
  /** No member could be claimed. `done` lists the done members in order, if the inbox looked. */
  | { readonly kind: 'none'; readonly done?: readonly (DoneEvent | undefined)[] | undefined }
  /** The claim was answered too late to start. */
  | { readonly kind: 'late' }
  /** The claimed members would overtake unclaimed members of their lane. */
  | {
      readonly kind: 'overtaking'
      readonly claimed: readonly PendingEvent[]
      readonly unclaimed: readonly PendingEvent[]
    }
  | {
      readonly kind: 'committed'
      readonly claimed: readonly PendingEvent[]
      readonly unclaimed: readonly PendingEvent[]
      readonly results: ReadonlyMap<EventId, Json>
    }
  | {
      readonly kind: 'failed'
      readonly failure: TransactionFailure
      readonly claimed: readonly PendingEvent[]
      readonly unclaimed: readonly PendingEvent[]
      /** The transaction is still open. Recording the verdict ends it. */
      readonly transaction: InboxTransaction<unknown>
    }

/** Includes a server that accepts a claim and then ends the connection. */
export function hasStoreFailed(end: TransactionEnd): boolean {
  return (
    end.kind === 'failed' && (end.failure.kind === 'store' || end.failure.kind === 'commit-unknown')
  )
}
