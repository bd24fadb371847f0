import type { DeadLetterReason, Health } from '@onceward/core'

/** The closed sets that are told completely, so that a series begins before its first trouble. */
export const DEPENDENCIES = ['inbox', 'leases', 'dead-letters'] as const
export const CONSUMPTION_STATES: readonly Health['state'][] = [
  'running',
  'paused',
  'recovering',
  'draining',
  'stopped',
]
export const DEAD_LETTER_REASONS: readonly DeadLetterReason[] = [
  'fatal',
  'attempts-spent',
  'no-verdict',
  'invalid-payload',
  'fingerprint-mismatch',
  'missing-event-key',
  'takeover',
]
