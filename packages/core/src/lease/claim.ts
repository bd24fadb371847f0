import { clampedMs } from '../concurrency/backoff.ts'
import type { OwnerToken } from '../model/brands.ts'
import { ConflictError, roundedHint, StoreUnavailableError } from '../model/errors.ts'
import { addTime, type InFlightEvent } from '../model/in-flight-event.ts'
import type { ClaimResult, LeaseSession } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { optionsOf } from '../options/routes.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { ClaimsByNeed } from './claims-by-need.ts'
import type { LeaseRenewer } from './renew.ts'

/** Minimum deferral of a duplicate of an event in flight, ms (brokers.md §5.9). */
const LEAST_DEFER_MS = 1_000

export interface Leases {
  readonly options: ResolvedOptions
  readonly store: LeaseSession
  readonly renewer: LeaseRenewer
  /** Given if only events that may be copies are claimed. */
  readonly byNeed?: ClaimsByNeed | undefined
}

/** The lease store's answer about one event. */
export type Claimed =
  | { readonly kind: 'run'; readonly member: InFlightEvent; readonly takeover: boolean }
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  /** The key was used before with another payload. With an inbox, the event's row decides whether that is true. */
  | { readonly kind: 'conflict' }
  /** The store did not answer. If the store took the claim anyway, its lease expires. */
  | { readonly kind: 'unavailable'; readonly error: unknown }

/** Step 2: takes the exclusive right to process each event, in one round trip. Never rejects. */
export async function claimLeases(
  context: Leases,
  members: readonly InFlightEvent[],
): Promise<readonly Claimed[]> {
  const { options, store } = context
  const { callerRetries, inbox, leaseMs, runtime } = options
  // With an inbox, the lease store's count is only a hint: Postgres decides. The retries of a caller have no limit.
  const isCounted = inbox === undefined && callerRetries === undefined
  const tokens = members.map(() => runtime.uuid() as OwnerToken)
  const claims = members.map(({ event, type }, index) => ({
    id: event.id,
    fingerprint: event.fingerprint,
    ownerToken: tokens[index] as OwnerToken,
    leaseMs,
    maxAttempts: isCounted ? optionsOf(options, { type }).retry.attempts : undefined,
  }))
  const askedAtMs = runtime.monotonic()
  let results: readonly ClaimResult[]
  try {
    results = await store.claim(claims)
    if (options.observe !== undefined) addTime(members, 'claimMs', runtime.monotonic() - askedAtMs)
  } catch (error) {
    return members.map(() => ({ kind: 'unavailable', error }))
  }
  context.byNeed?.answered(results)
  return members.map((member, index) =>
    toClaimed(context, { member, token: tokens[index] as OwnerToken, askedAtMs }, results[index]),
  )
}

function toClaimed(
  { renewer, options }: Leases,
  claim: {
    readonly member: InFlightEvent
    readonly token: OwnerToken
    readonly askedAtMs: number
  },
  result: ClaimResult | undefined,
): Claimed {
  const { askedAtMs, member, token } = claim
  // A caller's run leaves no record when it fails, so there is nothing to count before the next one.
  const isGuarded = options.callerRetries === undefined
  switch (result?.kind) {
    case 'acquired': {
      const lease = renewer.keepRenewed(member.event.id, token, askedAtMs)
      const suspect = member.suspect || (result.by !== 'first' && isGuarded)
      const takeover = result.by === 'takeover'
      const isUndecided = takeover && options.inbox === undefined
      const run = { ...member, lease, suspect, leaseAttempt: result.attempt, isUndecided }
      return { kind: 'run', member: run, takeover }
    }
    case 'in-progress': {
      if (isBeyond(options, result.remainingMs, options.leaseMs)) return asksInbox(member)
      const jitterMs = options.runtime.random() * (options.leaseMs / 3)
      const remainingMs = clampedMs(result.remainingMs, options.leaseMs)
      const delayMs = Math.max(LEAST_DEFER_MS, remainingMs) + jitterMs
      return { kind: 'outcome', outcome: { kind: 'in-progress', delayMs, cause: 'held-by-lease' } }
    }
    case 'not-due': {
      const { maxMs } = optionsOf(options, member).retry
      if (isBeyond(options, result.remainingMs, maxMs)) return asksInbox(member)
      return {
        kind: 'outcome',
        outcome: {
          kind: 'not-due',
          delayMs: clampedMs(result.remainingMs, maxMs),
          cause: 'not-due',
        },
      }
    }
    case 'duplicate':
      return { kind: 'outcome', outcome: { kind: 'duplicate', result: result.result } }
    case 'dead':
      // With an inbox, only the event's row can say that the event is dead-lettered.
      return options.inbox === undefined
        ? {
            kind: 'outcome',
            outcome: { kind: 'dead', reason: result.reason, attempt: 0, repeated: true },
          }
        : { kind: 'run', member: { ...member, suspect: isGuarded }, takeover: false }
    case 'conflict':
      return { kind: 'conflict' }
    case 'unknown':
    case undefined:
      return options.inbox === undefined
        ? { kind: 'outcome', outcome: unknownOutcome() }
        : asksInbox(member)
  }
}

/**
 * Beside an inbox: longer than any lease or wait of this guard. The store's clock was set back, so that the end of a dead
 * owner's lease may be days away.
 */
function isBeyond({ inbox }: ResolvedOptions, remainingMs: number, limitMs: number): boolean {
  return inbox !== undefined && remainingMs > limitMs
}

const asksInbox = (member: InFlightEvent): Claimed => ({ kind: 'run', member, takeover: false })

/** Without an inbox no other store knows whether the event was processed. */
function unknownOutcome(): Outcome {
  const error = new StoreUnavailableError(
    'The lease store cannot read its entry of the event. Check that all processes run compatible versions.',
  )
  return { kind: 'store-down', delayMs: LEAST_DEFER_MS, error, cause: 'store-error' }
}

/** Without an inbox a refused message is not recorded: only the broker's dead-letter queue has it. */
export function unrecordedConflict(
  { onConflict }: ResolvedOptions,
  { rounded }: Pick<InFlightEvent, 'rounded'>,
): Outcome {
  const error = new ConflictError(
    `The event key was used before with another payload. Check the key resolver and the producer.${roundedHint(rounded)}`,
  )
  if (onConflict !== 'dead-letter') return { kind: 'conflict', policy: onConflict, error }
  return { kind: 'dead', reason: 'fingerprint-mismatch', attempt: 0, error }
}
