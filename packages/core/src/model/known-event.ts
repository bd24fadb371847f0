import type { Fingerprint, Json } from './brands.ts'
import type { DeadLetterReason } from './settlement.ts'

/** An event whose effect is committed. */
export interface DoneEvent {
  readonly kind: 'done'
  readonly fingerprint: Fingerprint
  readonly result?: Json | undefined
  /** How long ago the effect was committed. Undefined if the store does not say. */
  readonly ageMs?: number | undefined
}

/** The stored state of an event. Ages and waits are milliseconds on the store's clock. */
export type Known =
  | { readonly kind: 'absent' }
  | DoneEvent
  | {
      readonly kind: 'dead'
      readonly fingerprint: Fingerprint
      readonly reason: DeadLetterReason
      readonly attempt: number
      readonly published: boolean
    }
  | {
      readonly kind: 'waiting'
      readonly fingerprint: Fingerprint
      readonly remainingMs: number
      readonly attempt: number
      /** A replayed event runs alone. */
      readonly alone: boolean
    }
  | {
      /** State `r`: started, no verdict yet. */
      readonly kind: 'running'
      readonly fingerprint: Fingerprint
      readonly attempt: number
      /** Negative if the clock of the store was set back since. */
      readonly ageMs: number
    }
