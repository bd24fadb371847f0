import type { StopSignals } from '../concurrency/stop-signals.ts'
import { type Claimed, type Leases, unrecordedConflict } from '../lease/claim.ts'
import type { Json } from '../model/brands.ts'
import { LeaseLostError, StoreUnavailableError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { Held } from '../model/lease-store.ts'
import type { Handler, HandlerContext, Takeover } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { decideRetry } from '../settlement/retry-rule.ts'
import { type HandlerEnd, runHandler, toResultText } from '../transaction/run-handler.ts'

/** A guard whose effects are not in Postgres: one owner at a time, results replayed, a policy for takeovers. */
export interface LeasedEngine {
  readonly options: ResolvedOptions
  readonly handler: Handler<unknown, undefined>
  readonly leases: Leases
}

export interface LeasedRun {
  readonly outcome: Outcome
  readonly handlerMs: number | undefined
  /** A takeover whose policy has answered. */
  readonly isDecided?: boolean | undefined
}

const LEASED_COMPLETE_TRIES = 3

const RETRY: Takeover = { kind: 'retry' }

export async function runLeased(
  engine: LeasedEngine,
  claimed: Claimed,
  signals: StopSignals,
): Promise<LeasedRun> {
  if (claimed.kind === 'outcome') return { outcome: claimed.outcome, handlerMs: undefined }
  if (claimed.kind === 'conflict') {
    return { outcome: unrecordedConflict(engine.options), handlerMs: undefined }
  }
  let isDecided = false
  const run = await runLeaseHandler(engine, claimed.member, signals, async (event, context) => {
    const decision = claimed.takeover ? await takeOver(engine, event, context) : RETRY
    // An answer that came too late decides nothing: others may have been asked meanwhile.
    context.signal.throwIfAborted()
    isDecided = true
    return decision.kind === 'retry' ? handle(engine, event, context) : decision
  })
  const outcome = await recordOutcome(engine, claimed.member, run)
  return { outcome, handlerMs: run.handlerMs, isDecided }
}

type Call = (
  event: Parameters<Handler<unknown, undefined>>[0],
  context: HandlerContext<undefined>,
) => Promise<Takeover>

/** Runs the handler without any claim: no key (`onMissingKey`) or no store (`onStoreDown`), by the user's policy. */
export async function runWithoutKey(
  engine: Omit<LeasedEngine, 'leases'>,
  member: InFlightEvent,
  signals: StopSignals,
): Promise<LeasedRun> {
  const end = await runLeaseHandler(engine, member, signals, (event, context) =>
    handle(engine, event, context),
  )
  return { outcome: unguardedOutcome(engine.options, member, end), handlerMs: end.handlerMs }
}

export function unguardedOutcome(
  options: ResolvedOptions,
  { event }: Pick<InFlightEvent, 'event'>,
  end: HandlerEnd,
): Outcome {
  if (end.kind === 'returned') return { kind: 'unguarded' }
  if (end.kind === 'drained') return { kind: 'abandoned', reason: 'closing' }
  const attempt = attemptOf({ event })
  const decision = decideRetry(options, attempt, end.error)
  return decision.kind === 'retry'
    ? { kind: 'failed', attempt, delayMs: decision.delayMs, error: end.error }
    : { kind: 'dead', reason: decision.reason, attempt, error: end.error }
}

/** Of an event that nothing is stored of: only the broker counts. */
function attemptOf({ event }: Pick<InFlightEvent, 'event'>): number {
  return event.delivery.deliveryCount ?? 1
}

async function handle(
  engine: Pick<LeasedEngine, 'handler'>,
  ...[event, context]: Parameters<Call>
): Promise<Takeover> {
  const value: unknown = await engine.handler(event, context)
  toResultText(value)
  return { kind: 'done', result: value as Json | undefined }
}

async function takeOver(
  engine: LeasedEngine,
  ...[event, context]: Parameters<Call>
): Promise<Takeover> {
  const { onTakeover = 'dead-letter' } = engine.options
  return typeof onTakeover === 'function' ? await onTakeover(event, context) : { kind: onTakeover }
}

function runLeaseHandler(
  engine: Pick<LeasedEngine, 'options'>,
  member: InFlightEvent,
  signals: StopSignals,
  run: Call,
): Promise<HandlerEnd & { readonly handlerMs: number }> {
  const { deadlineMs, logger, runtime } = engine.options
  const event = toGuardEvent(member, member.leaseAttempt ?? attemptOf(member))
  return runHandler(
    {
      runtime,
      deadlineMs,
      drain: signals.drain,
      leaseLost: member.lease?.lost,
      revoke: () => undefined,
    },
    (signal, deadlineAt) => run(event, { tx: undefined, signal, deadlineAt, logger }),
  )
}

async function recordOutcome(
  engine: LeasedEngine,
  member: InFlightEvent,
  end: HandlerEnd,
): Promise<Outcome> {
  const attempt = member.leaseAttempt ?? 1
  switch (end.kind) {
    case 'returned':
      return completeLeased(engine, member, end.value as Takeover)
    case 'lease-lost':
      return { kind: 'abandoned', reason: 'lease-lost', error: end.error, stillRunning: true }
    case 'drained':
      return { kind: 'abandoned', reason: 'closing', stillRunning: end.ended ? undefined : true }
    case 'threw':
    case 'deadline': {
      const decision = decideRetry(engine.options, attempt, end.error)
      return decision.kind === 'retry'
        ? { kind: 'failed', attempt, delayMs: decision.delayMs, error: end.error }
        : { kind: 'dead', reason: decision.reason, attempt, error: end.error }
    }
  }
}

/** The store must know before the broker does: a lost `complete` would let the effect happen again. */
async function completeLeased(
  engine: LeasedEngine,
  member: InFlightEvent,
  value: Takeover,
): Promise<Outcome> {
  const attempt = member.leaseAttempt ?? 1
  if (value.kind !== 'done') return { kind: 'dead', reason: 'takeover', attempt }
  const { result } = value
  const { options, store: leases } = engine.leases
  if (member.lease === undefined) return { kind: 'unguarded' }
  const held: Held = { id: member.event.id, ownerToken: member.lease.ownerToken }
  for (let left = LEASED_COMPLETE_TRIES; ; left -= 1) {
    try {
      const [answer] = await leases.complete([{ ...held, result }], options.dedupWindowMs)
      if (answer === 'held') return { kind: 'processed', attempt, result }
      const error = new LeaseLostError('The lease was lost before the result could be stored.')
      return { kind: 'abandoned', reason: 'lease-lost', error, stillRunning: true }
    } catch (error) {
      if (left > 1 && error instanceof StoreUnavailableError) continue
      return { kind: 'abandoned', reason: 'lease-lost', error, stillRunning: true }
    }
  }
}
