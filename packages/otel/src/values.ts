import type { DeadLetterReason, DependencyOutage, Health } from '@onceward/core'

/** The members of a union, all of them: a forgotten one does not compile. */
const all = <Value extends string>(values: Readonly<Record<Value, true>>): readonly Value[] =>
  Object.keys(values) as Value[]

type Dependency = Exclude<DependencyOutage['dependency'], 'broker'>

/** The closed sets that are reported completely, so that a series exists before its first failure. */
export const DEPENDENCIES: readonly Dependency[] = all<Dependency>({
  inbox: true,
  leases: true,
  'dead-letters': true,
})

export const CONSUMPTION_STATES: readonly Health['state'][] = all<Health['state']>({
  running: true,
  paused: true,
  recovering: true,
  draining: true,
  stopped: true,
})

export const DEAD_LETTER_REASONS: readonly DeadLetterReason[] = all<DeadLetterReason>({
  fatal: true,
  'attempts-spent': true,
  'no-verdict': true,
  'invalid-payload': true,
  'fingerprint-mismatch': true,
  'missing-event-key': true,
  'unknown-type': true,
  takeover: true,
  'late-statement': true,
})
