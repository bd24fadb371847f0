import { type Json, toEpochMs } from '../model/brands.ts'
import type { DeadLetterRef } from '../model/dead-letter.ts'
import type { Runtime } from '../model/runtime.ts'
import type {
  AbandonReason,
  DeadLetterReason,
  DeferCause,
  Settlement,
} from '../model/settlement.ts'

/** How the processing of one delivery ended. The outcome is already stored. */
export type Outcome =
  | { readonly kind: 'processed'; readonly attempt: number; readonly result?: Json | undefined }
  | {
      readonly kind: 'duplicate'
      readonly result?: Json | undefined
      /** How long ago the inbox says the effect was committed. */
      readonly ageMs?: number | undefined
    }
  /** Stored: the guard's poller runs the event. `repeated`: it was stored before, or is dead. */
  | { readonly kind: 'parked'; readonly repeated?: true | undefined }
  | { readonly kind: 'skipped' }
  | { readonly kind: 'unguarded'; readonly result?: Json | undefined }
  | { readonly kind: 'in-progress'; readonly delayMs: number; readonly cause: DeferCause }
  | { readonly kind: 'not-due'; readonly delayMs: number; readonly cause: DeferCause }
  | {
      readonly kind: 'failed'
      readonly attempt: number
      readonly delayMs: number
      readonly error: unknown
      readonly cause: DeferCause
    }
  | {
      readonly kind: 'dead'
      readonly reason: DeadLetterReason
      readonly attempt: number
      readonly error?: unknown
      /** The durable record. Undefined without an inbox. */
      readonly ref?: DeadLetterRef | undefined
      /** The event was dead-lettered by an earlier delivery, so this delivery is not counted again. */
      readonly repeated?: true | undefined
    }
  /** The handler asked to come back later. No attempt is counted. */
  | {
      readonly kind: 'deferred'
      readonly attempt: number
      readonly delayMs: number
      readonly cause: DeferCause
    }
  /** The effect is committed. The redelivery is a duplicate, and calls `afterCommit` again. */
  | {
      readonly kind: 'after-commit-failed'
      readonly attempt: number
      readonly delayMs: number
      readonly error: unknown
      readonly cause: DeferCause
    }
  /** A dead letter whose record does not hold the message, and which has no other place. */
  | {
      readonly kind: 'not-stored'
      readonly attempt: number
      readonly delayMs: number
      readonly error: unknown
      readonly cause: DeferCause
    }
  /** The fingerprints differ, and the policy is `ack` or `throw`. With `dead-letter` the outcome is `dead`. */
  | { readonly kind: 'conflict'; readonly policy: 'ack' | 'throw'; readonly error: unknown }
  | {
      readonly kind: 'store-down'
      readonly delayMs: number
      readonly error: unknown
      readonly cause: DeferCause
    }
  | {
      readonly kind: 'abandoned'
      readonly reason: AbandonReason
      readonly error?: unknown
      /** Undefined if the reason implies the cause: see {@link ABANDON_CAUSES}. */
      readonly cause?: DeferCause | undefined
      /** The handler is still running, so its claim must not be released. */
      readonly stillRunning?: true | undefined
    }

type SettlementTable = {
  readonly [Kind in Outcome['kind']]: (
    outcome: Extract<Outcome, { kind: Kind }>,
    runtime: Pick<Runtime, 'now'>,
  ) => Settlement
}

export const CONFLICT_DELAY_MS = 1_000

const ABANDON_CAUSES: Readonly<Record<AbandonReason, DeferCause>> = {
  'lease-lost': 'lease-lost',
  deadline: 'deadline',
  'commit-unknown': 'commit-unknown',
  closing: 'draining',
}

/**
 * The settlement of each outcome (design.md §5). Undefined fields are omitted, so that tests can compare settlements.
 */
const SETTLEMENTS = {
  processed: ({ result }) => acked('processed', result),
  duplicate: ({ result }) => acked('duplicate', result),
  parked: () => ({ kind: 'ack', by: 'parked' }),
  skipped: () => ({ kind: 'ack', by: 'skipped' }),
  unguarded: () => ({ kind: 'ack', by: 'unguarded' }),
  'in-progress': (outcome, runtime) => defer('in-progress', outcome, runtime),
  'not-due': (outcome, runtime) => defer('not-due', outcome, runtime),
  deferred: (outcome, runtime) => defer('not-due', outcome, runtime),
  failed: (outcome, runtime) => ({ ...defer('failed', outcome, runtime), error: outcome.error }),
  'after-commit-failed': (outcome, runtime) => ({
    ...defer('failed', outcome, runtime),
    error: outcome.error,
  }),
  'not-stored': (outcome, runtime) => ({
    ...defer('failed', outcome, runtime),
    error: outcome.error,
  }),
  dead: ({ reason, error }) => ({ kind: 'dead-letter', reason, ...given('error', error) }),
  conflict: ({ policy, error }, runtime) => {
    const deferral = { delayMs: CONFLICT_DELAY_MS, cause: 'conflict' } as const
    return policy === 'ack'
      ? { kind: 'ack', by: 'conflict' }
      : { ...defer('failed', deferral, runtime), error }
  },
  'store-down': (outcome, runtime) => ({
    ...defer('store-down', outcome, runtime),
    error: outcome.error,
  }),
  abandoned: ({ reason, error, cause = ABANDON_CAUSES[reason] }) => ({
    kind: 'abandon',
    reason,
    cause,
    ...given('error', error),
  }),
} satisfies SettlementTable

/** @param runtime - Only a deferral needs the time. */
export function settlementOf(outcome: Outcome, runtime: Pick<Runtime, 'now'>): Settlement {
  const settlement = SETTLEMENTS[outcome.kind] as SettlementTable[Outcome['kind']]
  return settlement(outcome as never, runtime)
}

function acked(by: 'processed' | 'duplicate', result: Json | undefined): Settlement {
  return result === undefined ? { kind: 'ack', by } : { kind: 'ack', by, result }
}

function given<Name extends string>(name: Name, value: unknown): { [N in Name]?: unknown } {
  return (value === undefined ? {} : { [name]: value }) as { [N in Name]?: unknown }
}

type Deferral = Extract<Settlement, { kind: 'defer' }>

function defer(
  reason: Deferral['reason'],
  { delayMs, cause }: { readonly delayMs: number; readonly cause: DeferCause },
  runtime: Pick<Runtime, 'now'>,
): Deferral {
  const until = toEpochMs(runtime.now() + Math.max(0, Math.ceil(delayMs)))
  return { kind: 'defer', reason, cause, until }
}

const STOPS_LANE = {
  processed: false,
  duplicate: false,
  parked: false,
  skipped: false,
  unguarded: false,
  'in-progress': true,
  'not-due': true,
  deferred: true,
  failed: true,
  'after-commit-failed': true,
  dead: false,
  'not-stored': true,
  conflict: false,
  'store-down': true,
  abandoned: true,
} as const satisfies Readonly<Record<Outcome['kind'], boolean>>

/** A lane stops at its first defer or abandon, so that later events of the lane do not overtake that event. */
export function stopsLane(outcome: Outcome): boolean {
  return STOPS_LANE[outcome.kind] || (outcome.kind === 'conflict' && outcome.policy === 'throw')
}

/** The outcome of a later event of a lane that stopped: the same deferral as the event that stopped it. */
export function laneFollowerOutcome(leader: Outcome): Outcome {
  const cause = 'lane-waits'
  switch (leader.kind) {
    case 'failed':
    case 'deferred':
    case 'after-commit-failed':
    case 'not-stored':
      return { kind: 'not-due', delayMs: leader.delayMs, cause }
    case 'conflict':
      return { kind: 'not-due', delayMs: CONFLICT_DELAY_MS, cause }
    case 'in-progress':
    case 'not-due':
    case 'store-down':
      return { ...leader, cause }
    case 'abandoned':
      return { kind: 'abandoned', reason: leader.reason, error: leader.error, cause }
    case 'processed':
    case 'duplicate':
    case 'parked':
    case 'skipped':
    case 'unguarded':
    case 'dead':
      return leader
    default:
      return leader satisfies never
  }
}

/** The outcome of a copy when the delivery that leads its group was not processed. */
export function copyOutcome(leader: Outcome): Outcome {
  switch (leader.kind) {
    case 'parked':
    case 'dead':
      return { ...leader, repeated: true }
    case 'failed':
    case 'deferred':
    case 'after-commit-failed':
    case 'not-stored':
    case 'conflict':
      return { ...laneFollowerOutcome(leader), cause: 'not-due' } as Outcome
    case 'abandoned':
      return { ...leader, stillRunning: undefined }
    default:
      return leader
  }
}
