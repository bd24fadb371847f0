import { inTurns, toLanes, WAITING_LANES } from '../concurrency/lanes.ts'
import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { type Claimed, type Leases, unrecordedConflict } from '../lease/claim.ts'
import { isHeldElsewhere, waitForHolder } from '../lease/wait-for-holder.ts'
import type { Json } from '../model/brands.ts'
import { LeaseLostError, StoreUnavailableError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { Release } from '../model/runtime.ts'
import type { Handler, HandlerContext, Takeover } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/user-functions.ts'
import { laneFollowerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import { failureOutcome } from '../settlement/retry-rule.ts'
import type { HandlerCall } from '../transaction/engine.ts'
import { contextFor } from '../transaction/handler-context.ts'
import {
  assertStorable,
  type HandlerEnd,
  runHandler,
  type TimedEnd,
} from '../transaction/run-handler.ts'
import type { OpenLeases } from './open-stores.ts'
import { type SlotRequest, takePlace } from './take-slot.ts'
import { attemptWithoutRecord, type Ended, runBesideOthers, runWithoutClaim } from './unguarded.ts'

/** Deferral while the only store is down, ms. */
const STORE_DOWN_MS = 1_000
/** Maximum number of tries to store a result. The next try starts when the store did not answer the previous one. */
const COMPLETE_TRIES = 3

/** A guard whose effects are not in Postgres: one owner at a time, replayed results, and a policy for takeovers. */
export interface WithoutInbox {
  readonly options: ResolvedOptions
  readonly call: HandlerCall
  readonly stores: OpenLeases
  readonly signals: StopSignals
  /** Called once for each event. Resolves when the lease store knows the outcome. */
  readonly onOutcome: (
    event: InFlightEvent,
    outcome: Outcome,
    handlerMs: number | undefined,
  ) => MaybeAsync<void>
}

interface Entry {
  readonly member: InFlightEvent
  readonly claimed: Claimed
}

/** Step 3 without an inbox: lanes run at the same time, the events of one lane in delivery order. */
export async function runWithoutInbox(
  run: WithoutInbox,
  members: readonly InFlightEvent[],
  claims: readonly Claimed[],
): Promise<void> {
  const entries = members.map((member, index) => ({ member, claimed: claims[index] as Claimed }))
  const lanes = toLanes(entries, ({ member }) => member.lane)
  const isWaiting = (lane: readonly Entry[]): boolean =>
    lane.some(({ claimed }) => isHeldElsewhere(claimed))
  const free = lanes.filter((lane) => !isWaiting(lane))
  const stop = run.signals.whenStopping
  await Promise.all([
    inTurns(free, { width: run.stores.slots.size, stop }, (lane) => runLane(run, lane)),
    inTurns(lanes.filter(isWaiting), { width: WAITING_LANES, stop }, (lane) => runLane(run, lane)),
  ])
}

async function runLane(run: WithoutInbox, lane: readonly Entry[]): Promise<void> {
  let stoppedBy: Outcome | undefined
  for (const { member, claimed: first } of lane) {
    // Another process holds the event and may finish soon.
    const claimed = stoppedBy
      ? first
      : await waitForHolder(run.stores.leases, member, { claimed: first, signals: run.signals })
    const held = claimed.kind === 'run' ? claimed.member : member
    const conclude = ({ handlerMs, isDecided, outcome }: LeasedEnd): MaybeAsync<void> => {
      if (stopsLane(outcome)) stoppedBy ??= outcome
      const isUndecided = held.isUndecided === true && isDecided !== true
      return run.onOutcome({ ...held, isUndecided }, outcome, handlerMs)
    }
    if (stoppedBy === undefined) await runClaimed(run, { member, claimed, conclude })
    else void conclude({ outcome: laneFollowerOutcome(stoppedBy), handlerMs: undefined })
  }
}

interface LeasedEnd extends Ended {
  /** True once `onTakeover` has answered. */
  readonly isDecided?: boolean | undefined
}

interface ClaimedEvent extends Entry {
  /** Resolves when the lease store knows the outcome. */
  readonly conclude: (ended: LeasedEnd) => MaybeAsync<void>
}

async function runClaimed(run: WithoutInbox, event: ClaimedEvent): Promise<void> {
  const { claimed, conclude, member } = event
  switch (claimed.kind) {
    case 'outcome':
      return conclude({ outcome: claimed.outcome, handlerMs: undefined })
    case 'conflict':
      return conclude({ outcome: unrecordedConflict(run.options), handlerMs: undefined })
    case 'unavailable':
      return conclude(
        run.options.onStoreDown === 'unguarded'
          ? await runBesideOthers(slotOf(run), (hold) => runWithoutClaim({ ...run, hold }, member))
          : { outcome: storeDown(claimed.error), handlerMs: undefined },
      )
    case 'run':
      return runInPlace(run, claimed, conclude)
  }
}

/** Other runs wait until the lease store knows the outcome: the next event that runs alone may kill the process. */
async function runInPlace(
  run: WithoutInbox,
  claimed: Extract<Claimed, { kind: 'run' }>,
  conclude: ClaimedEvent['conclude'],
): Promise<void> {
  const place = await takePlace(slotOf(run))
  if ('kind' in place) return conclude({ outcome: place, handlerMs: undefined })
  try {
    await conclude(await runLeased(run, claimed, place.hold))
  } finally {
    place.leave()
  }
}

function storeDown(error: unknown): Outcome {
  return { kind: 'store-down', delayMs: STORE_DOWN_MS, error, cause: 'store-error' }
}

function slotOf({ options: { runtime }, signals, stores: { slots } }: WithoutInbox): SlotRequest {
  return { slots, runtime, signals }
}

/** The handler is never a batch handler: batches need an inbox, and the options are refused without one. */
function handlerOf({ call }: WithoutInbox): Handler<unknown, undefined> {
  return call.handler as Handler<unknown, undefined>
}

const RETRY: Takeover = { kind: 'retry' }

async function runLeased(
  run: WithoutInbox,
  { member, takeover }: Extract<Claimed, { kind: 'run' }>,
  hold: Release,
): Promise<LeasedEnd> {
  const { options, stores } = run
  // The event may have waited long for its slot and for the lock.
  if (!(await stores.leases.renewer.isSafe(member))) {
    const error = new LeaseLostError('The lease was lost before the handler could start.')
    return { outcome: { kind: 'abandoned', reason: 'lease-lost', error }, handlerMs: undefined }
  }
  let isDecided = false
  const end = await runLeaseHandler({ ...run, hold }, member, async (context) => {
    const event = toGuardEvent(member, member.leaseAttempt ?? attemptWithoutRecord(member))
    const decision = takeover ? await takeOver(options, event, context) : RETRY
    // An answer after the deadline is ignored: another process may have called `onTakeover` meanwhile.
    context.signal.throwIfAborted()
    isDecided = true
    return decision.kind === 'retry' ? handle(handlerOf(run), event, context) : decision
  })
  const outcome = await toOutcome(stores.leases, member, end)
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
  { hold, options, signals }: WithoutInbox & { readonly hold: Release },
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
