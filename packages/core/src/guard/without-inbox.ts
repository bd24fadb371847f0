import { type Claimed, type Leases, unrecordedConflict } from '../lease/claim.ts'
import type { Json } from '../model/brands.ts'
import { LeaseLostError, StoreUnavailableError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { Release } from '../model/runtime.ts'
import type { Handler, HandlerContext, Takeover } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/user-functions.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { failureOutcome } from '../settlement/retry-rule.ts'
import { contextFor } from '../transaction/handler-context.ts'
import {
  assertStorable,
  type HandlerEnd,
  runHandler,
  type TimedEnd,
} from '../transaction/run-handler.ts'
import { claimAgain, type EventRun, end } from './event-run.ts'
import type { Processing } from './processing.ts'
import type { Received } from './receive.ts'
import { type SlotRequest, takePlace } from './take-slot.ts'
import { attemptWithoutRecord, type Ended, runBesideOthers, runWithoutClaim } from './unguarded.ts'

/** Deferral while the only store is down, ms. */
const STORE_DOWN_MS = 1_000
/** Maximum number of tries to store a result. The next try starts when the store did not answer the previous one. */
const COMPLETE_TRIES = 3

/** The result of the run of one claimed event. */
interface LeasedEnd extends Ended {
  /** True once `onTakeover` has answered. */
  readonly isDecided?: boolean | undefined
}

/** Step 3 without an inbox: one owner at a time, replayed results, and a policy for takeovers. */
export async function runLeaseAlone(run: EventRun, event: Received): Promise<void> {
  const { options, stores } = run.processing
  if (event.claimed === undefined) throw new Error('Without an inbox, each event is claimed.')
  const leases = stores.leases as Leases
  const claimed = await claimAgain(run, leases, { event, claimed: event.claimed })
  switch (claimed.kind) {
    case 'outcome':
      return end(run, event, claimed.outcome)
    case 'conflict':
      return end(run, event, unrecordedConflict(options))
    case 'unavailable': {
      if (options.onStoreDown !== 'unguarded') return end(run, event, storeDown(claimed.error))
      const { handlerMs, outcome } = await runBesideOthers(slotOf(run.processing), (hold) =>
        runWithoutClaim({ ...run.processing, hold }, event.member),
      )
      return end(run, event, outcome, handlerMs)
    }
    case 'run':
      return runInPlace(run, event, claimed)
  }
}

/** Other runs wait until the lease store knows the outcome: the next event that runs alone may kill the process. */
async function runInPlace(
  run: EventRun,
  event: Received,
  claimed: Extract<Claimed, { kind: 'run' }>,
): Promise<void> {
  const place = await takePlace(slotOf(run.processing))
  if ('kind' in place) return end(run, event, place)
  try {
    const leased = { ...run.processing, hold: place.hold }
    const { handlerMs, isDecided, outcome } = await runLeased(leased, claimed)
    if (isDecided === true) event.member = { ...event.member, isUndecided: false }
    await end(run, event, outcome, handlerMs)
  } finally {
    place.leave()
  }
}

/** What the run of one event without an inbox needs. */
interface LeasedRun extends Pick<Processing, 'options' | 'call' | 'stores' | 'signals'> {
  readonly hold: Release
}

function storeDown(error: unknown): Outcome {
  return { kind: 'store-down', delayMs: STORE_DOWN_MS, error, cause: 'store-error' }
}

function slotOf({ options: { runtime }, signals, stores: { slots } }: Processing): SlotRequest {
  return { slots, runtime, signals }
}

/** The handler is never a batch handler: batches need an inbox, and the options are refused without one. */
function handlerOf({ call }: LeasedRun): Handler<unknown, undefined> {
  return call.handler as Handler<unknown, undefined>
}

const RETRY: Takeover = { kind: 'retry' }

async function runLeased(
  run: LeasedRun,
  { member, takeover }: Extract<Claimed, { kind: 'run' }>,
): Promise<LeasedEnd> {
  const { options } = run
  const leases = run.stores.leases as Leases
  // The event may have waited long for its slot and for the lock.
  if (!(await leases.renewer.isSafe(member))) {
    const error = new LeaseLostError('The lease was lost before the handler could start.')
    return { outcome: { kind: 'abandoned', reason: 'lease-lost', error }, handlerMs: undefined }
  }
  let isDecided = false
  const end = await runLeaseHandler(run, member, async (context) => {
    const event = toGuardEvent(member, member.leaseAttempt ?? attemptWithoutRecord(member))
    const decision = takeover ? await takeOver(options, event, context) : RETRY
    // An answer after the deadline is ignored: another process may have called `onTakeover` meanwhile.
    context.signal.throwIfAborted()
    isDecided = true
    return decision.kind === 'retry' ? handle(handlerOf(run), event, context) : decision
  })
  const outcome = await toOutcome(leases, member, end)
  return { outcome, handlerMs: end.handlerMs, isDecided }
}

type Event = Parameters<Handler<unknown, undefined>>[0]

async function takeOver(
  { onTakeover = 'dead-letter' }: ResolvedOptions,
  event: Event,
  context: HandlerContext<undefined>,
): Promise<Takeover> {
  if (typeof onTakeover !== 'function') return { kind: onTakeover }
  return toTakeover(await onTakeover(event, context))
}

function toTakeover(answer: unknown): Takeover {
  const { kind, result } = Object(answer) as Partial<Readonly<Record<string, unknown>>>
  if (kind === 'retry' || kind === 'dead-letter') return { kind }
  if (kind !== 'done') throw new WrongAnswerError('onTakeover', answer)
  assertStorable(result)
  return { kind, result: result as Json | undefined }
}

async function handle(
  handler: Handler<unknown, undefined>,
  event: Event,
  context: HandlerContext<undefined>,
): Promise<Takeover> {
  const value: unknown = await handler(event, context)
  assertStorable(value)
  return { kind: 'done', result: value as Json | undefined }
}

function runLeaseHandler(
  { hold, options, signals }: LeasedRun,
  member: InFlightEvent,
  handler: (context: HandlerContext<undefined>) => Promise<Takeover>,
): Promise<TimedEnd> {
  const deadlineMs = signals.bounded(options.deadlineMs)
  const attempt = member.leaseAttempt ?? attemptWithoutRecord(member)
  const event = { key: member.event.key, idempotencyKey: member.event.id, attempt }
  return runHandler(
    {
      runtime: options.runtime,
      isTimed: options.observe !== undefined,
      deadlineMs,
      drain: signals.drain,
      leaseLost: member.lease?.lost,
      hold,
      revoke: () => undefined,
    },
    (aborting, deadlineAt) =>
      handler(contextFor(options, { tx: undefined, aborting, deadlineAt, event })),
  )
}

async function toOutcome(leases: Leases, member: InFlightEvent, end: HandlerEnd): Promise<Outcome> {
  switch (end.kind) {
    case 'returned':
      return completeLeased(leases, member, end.value as Takeover)
    case 'lease-lost':
      return { kind: 'abandoned', reason: 'lease-lost', error: end.error, stillRunning: true }
    case 'drained':
      return { kind: 'abandoned', reason: 'closing', stillRunning: end.ended ? undefined : true }
    case 'deadline':
      // Its handler may still run: freed at once, the key would be run beside it.
      if (leases.options.callerRetries !== undefined) return stillRunning(end.error)
      return failureOutcome(leases.options, member.leaseAttempt ?? 1, end.error)
    case 'threw':
      return failureOutcome(leases.options, member.leaseAttempt ?? 1, end.error)
  }
}

const stillRunning = (error: unknown): Outcome => ({
  kind: 'abandoned',
  reason: 'deadline',
  error,
  stillRunning: true,
})

/** Stores the result before the broker is told. If `complete` were lost, the effect could happen again. */
async function completeLeased(
  { options, store }: Leases,
  member: InFlightEvent,
  value: Takeover,
): Promise<Outcome> {
  const attempt = member.leaseAttempt ?? 1
  if (value.kind !== 'done') return { kind: 'dead', reason: 'takeover', attempt }
  const { result } = value
  if (member.lease === undefined) return { kind: 'unguarded' }
  const held = { id: member.event.id, ownerToken: member.lease.ownerToken, result }
  for (let left = COMPLETE_TRIES; ; left -= 1) {
    try {
      const [answer] = await store.complete([held], options.dedupWindowMs)
      if (answer === 'held') return { kind: 'processed', attempt, result }
      const error = new LeaseLostError(
        'The lease was lost before the result could be stored. If another process has taken it, `onTakeover` decides. If the store has lost its entry, the next delivery runs the handler again.',
      )
      return { kind: 'abandoned', reason: 'lease-lost', error, stillRunning: true }
    } catch (error) {
      if (left > 1 && error instanceof StoreUnavailableError) continue
      return { kind: 'abandoned', reason: 'lease-lost', error, stillRunning: true }
    }
  }
}
