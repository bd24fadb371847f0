import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { Identified } from '../identity/identify.ts'
import type { EventId, EventKey, Fingerprint } from '../model/brands.ts'
import type { Delivery } from '../model/delivery.ts'
import { unrunError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { InboxTransaction } from '../model/inbox.ts'
import type { Release, Runtime } from '../model/runtime.ts'
import type { Handler } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { failureOutcome } from '../settlement/retry-rule.ts'
import type { Engine, HandlerCall } from '../transaction/engine.ts'
import { contextFor } from '../transaction/handler-context.ts'
import { assertStorable, type HandlerEnd, runHandler } from '../transaction/run-handler.ts'
import { type SlotRequest, takePlace } from './take-slot.ts'

/** The result of the run of one event. */
export interface Ended {
  readonly outcome: Outcome
  readonly handlerMs: number | undefined
}

/** Runs in a slot, beside other runs but never beside an event that must run alone. */
export async function runBesideOthers(
  request: SlotRequest,
  run: (hold: Release) => Promise<Ended>,
): Promise<Ended> {
  const place = await takePlace(request)
  if ('kind' in place) return { outcome: place, handlerMs: undefined }
  try {
    return await run(place.hold)
  } finally {
    place.leave()
  }
}

/** Makes an event for a delivery without a key: each such delivery is an event of its own. */
export function eventWithoutKey(
  runtime: Runtime,
  { delivery, index }: { readonly delivery: Delivery; readonly index: number },
  { orderingKey: lane, payload }: Extract<Identified, { kind: 'unguarded' }>,
): InFlightEvent {
  const id = runtime.uuid() as EventId
  const event = { id, key: '' as EventKey, fingerprint: 0n as Fingerprint, delivery }
  return { index, event, payload, lane, suspect: false }
}

/** The attempt of an event without a stored record, taken from the broker's delivery count. */
export function attemptWithoutRecord({ event }: Pick<InFlightEvent, 'event'>): number {
  return event.delivery.deliveryCount ?? 1
}

interface WithoutClaim {
  readonly options: ResolvedOptions
  readonly call: HandlerCall
  readonly signals: StopSignals
  readonly hold: Release
}

/** Runs the handler without a claim and without a transaction: no key (`onMissingKey`) or no store (`onStoreDown`). */
export async function runWithoutClaim(
  { call, hold, options, signals }: WithoutClaim,
  member: InFlightEvent,
): Promise<Ended> {
  const { observe, runtime } = options
  const isTimed = observe !== undefined
  const deadlineMs = signals.bounded(options.deadlineMs)
  const event = toGuardEvent(member, member.leaseAttempt ?? attemptWithoutRecord(member))
  const handler = call.handler as Handler<unknown, undefined>
  const end = await runHandler(
    { runtime, isTimed, deadlineMs, drain: signals.drain, hold, revoke: () => undefined },
    async (aborting, deadlineAt) => {
      const context = contextFor(options, { tx: undefined, aborting, deadlineAt, event })
      const value: unknown = await handler(event, context)
      assertStorable(value)
    },
  )
  return { outcome: unguardedOutcome(options, member, end), handlerMs: end.handlerMs }
}

/** Runs the handler in its own transaction, without a claim: there is no key, and the policy is `'unguarded'`. */
export function runUnguarded(
  engine: Engine,
  member: InFlightEvent,
  signals: StopSignals,
): Promise<Ended> {
  const { runtime } = engine.options
  return runBesideOthers({ slots: engine.slots, runtime, signals }, (hold) =>
    begin({ engine, member, signals, hold }),
  )
}

interface Unguarded {
  readonly engine: Engine
  readonly member: InFlightEvent
  readonly signals: StopSignals
  readonly hold: Release
}

async function begin(run: Unguarded): Promise<Ended> {
  const { engine, member } = run
  try {
    const budgetMs = run.signals.bounded(engine.options.deadlineMs)
    const claim = { kind: 'none' } as const
    const begun = await engine.session.begin({ claim, waitMs: 0, budgetMs })
    if (begun.kind !== 'open') throw new Error('A transaction without a claim did not open.')
    const ended = await runInTransaction(run, begun.transaction)
    if (ended.outcome.kind !== 'abandoned') engine.breaker.succeeded()
    return ended
  } catch (error) {
    engine.breaker.failed(error)
    const delayMs = engine.heldBackoff.nextMs(member.event.id)
    const outcome: Outcome = { kind: 'store-down', delayMs, error, cause: 'store-error' }
    return { outcome, handlerMs: undefined }
  }
}

async function runInTransaction(
  run: Unguarded,
  transaction: InboxTransaction<unknown>,
): Promise<Ended> {
  const { hold, signals } = run
  const { call, options } = run.engine
  const deadlineMs = signals.bounded(options.deadlineMs)
  const event = toGuardEvent(run.member, attemptWithoutRecord(run.member))
  const end = await runHandler(
    {
      runtime: options.runtime,
      isTimed: options.observe !== undefined,
      deadlineMs,
      drain: signals.drain,
      hold,
      revoke: (error) => transaction.revoke(error),
    },
    async (aborting, deadlineAt) => {
      const context = contextFor(options, { tx: transaction.tx, aborting, deadlineAt, event })
      const returned: unknown = await (call.kind === 'single'
        ? call.handler(event, context)
        : call.handler([event], context))
      // Nothing is stored, but it may be an effect that has not happened.
      const error = unrunError(returned)
      if (error !== undefined) throw error
    },
  )
  const { handlerMs } = end
  if (end.kind !== 'returned') {
    await transaction.rollback()
    return { outcome: unguardedOutcome(options, run.member, end), handlerMs }
  }
  const answer = await transaction.commit({ results: new Map(), recovered: [] })
  if (answer.kind === 'committed') return { outcome: { kind: 'unguarded' }, handlerMs }
  const outcome: Outcome =
    answer.kind === 'rolled-back'
      ? unguardedOutcome(options, run.member, { kind: 'threw', error: answer.error })
      : { kind: 'abandoned', reason: 'commit-unknown', error: answer.error }
  return { outcome, handlerMs }
}

function unguardedOutcome(
  options: ResolvedOptions,
  member: InFlightEvent,
  end: HandlerEnd,
): Outcome {
  if (end.kind === 'returned') return { kind: 'unguarded' }
  if (end.kind === 'drained') return { kind: 'abandoned', reason: 'closing' }
  return failureOutcome(options, attemptWithoutRecord(member), end.error)
}
