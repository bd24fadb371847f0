import type { EventId, OwnerToken } from './brands.ts'
import type { Delivery } from './delivery.ts'
import type { DeadLetterReason } from './settlement.ts'

/** Identifies a dead letter: a dead-lettered event or a refused message. */
export type DeadLetterRef =
  | { readonly kind: 'event'; readonly id: EventId }
  | { readonly kind: 'refused'; readonly id: string }

/** The message that is published to a dead-letter queue. */
export interface DeadLetter {
  readonly ref: DeadLetterRef
  readonly consumer: string
  readonly key?: string | undefined
  readonly reason: DeadLetterReason
  readonly error?: string | undefined
  readonly attempts: number
  readonly firstFailedAt: Date
  readonly lastFailedAt: Date
  readonly delivery: Delivery
  /** Given for an item of a delivery that was split: it proves that onceward made it. */
  readonly itemMark?: string | undefined
}

/**
 * Hands a dead letter to the broker. Resolves once the broker has confirmed it.
 *
 * One function stands for one dead-letter place: calls of the same function share the place's limits and its breaker.
 */
export type Publish = (letter: DeadLetter) => Promise<void>

/** The answer to taking the right to publish a dead letter. */
export type PublishingRight =
  | { readonly kind: 'taken'; readonly token: OwnerToken; readonly letter: DeadLetter }
  /** It was published before. */
  | { readonly kind: 'already' }
  /** Another process has the right, and its time is not over. */
  | { readonly kind: 'held' }
  /** It is no longer a dead letter. */
  | { readonly kind: 'gone' }

/** How a call of {@link Publish} ended. `failed` gives the right back. */
export type PublishingEnd = 'published' | 'failed'
