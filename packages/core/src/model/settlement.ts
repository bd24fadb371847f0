import type { EpochMs } from './brands.ts'

export type DeferReason = 'in-progress' | 'not-due' | 'failed' | 'store-down'
export type DeadLetterReason =
  | 'fatal'
  | 'attempts-spent'
  | 'no-verdict'
  | 'invalid-payload'
  | 'fingerprint-mismatch'
  | 'missing-event-key'
  | 'takeover'
export type AbandonReason = 'lease-lost' | 'deadline' | 'commit-unknown' | 'closing'

/** What the adapter must do with a delivery. Carried out after the stores know, never before. */
export type Settlement =
  | {
      readonly kind: 'ack'
      readonly by: 'processed' | 'duplicate' | 'skipped' | 'conflict' | 'unguarded'
      readonly result?: unknown
    }
  | {
      readonly kind: 'defer'
      readonly reason: DeferReason
      /** When the delivery may come back, on this process's clock. */
      readonly until: EpochMs
      readonly error?: unknown
    }
  | {
      readonly kind: 'dead-letter'
      readonly reason: DeadLetterReason
      readonly error?: unknown
    }
  | {
      readonly kind: 'abandon'
      readonly reason: AbandonReason
      readonly error?: unknown
    }
