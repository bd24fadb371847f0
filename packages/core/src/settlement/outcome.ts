import { type EpochMs, type Json, toEpochMs } from '../model/brands.ts'
import type { DeadLetterRef } from '../model/inbox.ts'
import type { AbandonReason, DeadLetterReason, Settlement } from '../model/settlement.ts'

/** How the processing of one delivery ended. The stores know it already. */
export type Outcome =
  | { readonly kind: 'processed'; readonly attempt: number; readonly result?: Json | undefined }
  | { readonly kind: 'duplicate'; readonly result?: Json | undefined }
  | { readonly kind: 'skipped' }
  | { readonly kind: 'unguarded' }
  | { readonly kind: 'in-progress'; readonly delayMs: number }
  | { readonly kind: 'not-due'; readonly delayMs: number }
  | {
      readonly kind: 'failed'
      readonly attempt: number
      readonly delayMs: number
      readonly error: unknown
    }
  | {
      readonly kind: 'dead'
      readonly reason: DeadLetterReason
      readonly attempt: number
      readonly error?: unknown
      /** The durable record; none without an inbox. */
      readonly ref?: DeadLetterRef | undefined
    }
  /** Fingerprints differ and the policy is `ack` or `throw`; with `dead-letter` it is `dead`. */
  | { readonly kind: 'conflict'; readonly policy: 'ack' | 'throw'; readonly error: unknown }
  | { readonly kind: 'store-down'; readonly delayMs: number; readonly error: unknown }
  | {
      readonly kind: 'abandoned'
      readonly reason: AbandonReason
      readonly error?: unknown
      /** The handler did not end: nobody may release its claim. */
      readonly stillRunning?: true | undefined
    }

type SettlementTable = {
  readonly [Kind in Outcome['kind']]: (
    outcome: Extract<Outcome, { kind: Kind }>,
    now: EpochMs,
  ) => Settlement
}

const CONFLICT_DELAY_MS = 1_000

/** design.md §5. An error that is undefined is left out, so that settlements compare well in tests. */
const SETTLEMENTS = {
  processed: ({ result }) => ({ kind: 'ack', by: 'processed', ...given('result', result) }),
  duplicate: ({ result }) => ({ kind: 'ack', by: 'duplicate', ...given('result', result) }),
  skipped: () => ({ kind: 'ack', by: 'skipped' }),
  unguarded: () => ({ kind: 'ack', by: 'unguarded' }),
  'in-progress': ({ delayMs }, now) => defer('in-progress', now, delayMs),
  'not-due': ({ delayMs }, now) => defer('not-due', now, delayMs),
  failed: ({ delayMs, error }, now) => ({ ...defer('failed', now, delayMs), error }),
  dead: ({ reason, error }) => ({ kind: 'dead-letter', reason, ...given('error', error) }),
  conflict: ({ policy, error }, now) =>
    policy === 'ack'
      ? { kind: 'ack', by: 'conflict' }
      : { ...defer('failed', now, CONFLICT_DELAY_MS), error },
  'store-down': ({ delayMs, error }, now) => ({ ...defer('store-down', now, delayMs), error }),
  abandoned: ({ reason, error }) => ({ kind: 'abandon', reason, ...given('error', error) }),
} satisfies SettlementTable

export function settlementOf(outcome: Outcome, now: EpochMs): Settlement {
  const settle = SETTLEMENTS[outcome.kind] as (outcome: Outcome, now: EpochMs) => Settlement
  return settle(outcome, now)
}

function given<Name extends string>(name: Name, value: unknown): { [N in Name]?: unknown } {
  return (value === undefined ? {} : { [name]: value }) as { [N in Name]?: unknown }
}

function defer(
  reason: 'in-progress' | 'not-due' | 'failed' | 'store-down',
  now: EpochMs,
  delayMs: number,
): Extract<Settlement, { kind: 'defer' }> {
  return { kind: 'defer', reason, until: toEpochMs(now + Math.max(0, Math.ceil(delayMs))) }
}

/** A lane stops at its first defer or abandon: what came after it must not overtake it. */
export function stopsLane(outcome: Outcome): boolean {
  const { kind } = settlementOf(outcome, toEpochMs(0))
  return kind === 'defer' || kind === 'abandon'
}

/** How a follower of a lane that stopped settles: with the same time. */
export function laneFollowerOutcome(leader: Outcome): Outcome {
  switch (leader.kind) {
    case 'failed':
      return { kind: 'not-due', delayMs: leader.delayMs }
    case 'conflict':
      return { kind: 'not-due', delayMs: CONFLICT_DELAY_MS }
    case 'in-progress':
    case 'not-due':
    case 'store-down':
      return leader
    case 'abandoned':
      return { kind: 'abandoned', reason: leader.reason, error: leader.error }
    case 'processed':
    case 'duplicate':
    case 'skipped':
    case 'unguarded':
    case 'dead':
      return leader
    default:
      return leader satisfies never
  }
}
