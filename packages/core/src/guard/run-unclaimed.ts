import type { Json } from '../model/brands.ts'
import { unrunError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { InboxTransaction } from '../model/inbox.ts'
import type { Release } from '../model/runtime.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { failureOutcome } from '../settlement/retry-rule.ts'
import type { Engine } from '../transaction/engine.ts'
import { storableAfterEffect, storableResult } from '../transaction/handler-result.ts'
import { Collected, RunOutbox } from '../transaction/outbox.ts'
import { type HandlerEnd, runHandler, type TimedEnd } from '../transaction/run-handler.ts'
import { type Processing, storeFailure } from './processing.ts'
import { takeSlot } from './take-slot.ts'

/** The result of the run of one event. */
export interface RunEnd {
  readonly outcome: Outcome
  readonly handlerMs: number | undefined
}

/** The attempt of an event without a stored record, taken from the broker's delivery count. */
export function attemptWithoutRecord({ event }: Pick<InFlightEvent, 'event'>): number {
  return event.delivery.deliveryCount ?? 1
}

/**
 * The strategy `none`: runs the handler without a claim, because the event has no key (`onMissingKey`) or its only store
 * does not answer (`onStoreDown`). With an inbox, the handler has a transaction.
 */
export async function runUnclaimed(processing: Processing, member: InFlightEvent): Promise<RunEnd> {
  const permit = await takePermit(processing)
  if ('kind' in permit) return { outcome: permit, handlerMs: undefined }
  try {
    const { engine } = processing.stores
    const run: UnclaimedRun = { processing, member, hold: permit.hold }
    if (engine !== undefined) return await runInTransaction(run, engine)
    const end = await runUnclaimedHandler(run)
    return { outcome: outcomeOf(processing.options, member, end), handlerMs: end.handlerMs }
  } finally {
    permit.release()
  }
}

interface UnclaimedRun {
  readonly processing: Processing
  readonly member: InFlightEvent
  readonly hold: Release
}

async function runInTransaction(run: UnclaimedRun, engine: Engine): Promise<RunEnd> {
  const { options, signals } = run.processing
  try {
    const budgetMs = signals.bounded(options.deadlineMs)
    const begun = await engine.session.begin({ claim: { kind: 'none' }, waitMs: 0, budgetMs })
    if (begun.kind !== 'open') throw new Error('A transaction without a claim did not open.')
    const ended = await commit(run, begun.transaction)
    if (ended.outcome.kind !== 'abandoned') engine.breaker.succeeded()
    return ended
  } catch (error) {
    engine.breaker.failed(error)
    const delayMs = engine.heldBackoff.nextMs(run.member.event.id)
    const outcome: Outcome = { kind: 'store-down', delayMs, error, cause: 'store-error' }
    return { outcome, handlerMs: undefined }
  }
}

async function commit(run: UnclaimedRun, transaction: InboxTransaction<unknown>): Promise<RunEnd> {
  const { member, processing } = run
  const collected = new Collected()
  const outbox =
    processing.stores.engine?.session.sendsMessages === true
      ? new RunOutbox(processing.options, [], () => collected)
      : undefined
  const end = await runUnclaimedHandler(run, transaction, outbox)
  const { handlerMs } = end
  if (end.kind !== 'returned') {
    await transaction.rollback()
    return { outcome: outcomeOf(processing.options, member, end), handlerMs }
  }
  const answer = await transaction.commit({
    results: new Map(),
    recovered: [],
    ...(collected.messages.length > 0 && { sends: collected.messages }),
  })
  if (answer.kind === 'committed') {
    return { outcome: outcomeOf(processing.options, member, end), handlerMs }
  }
  const outcome: Outcome =
    answer.kind === 'rolled-back'
      ? outcomeOf(processing.options, member, { kind: 'threw', error: answer.error })
      : { kind: 'abandoned', reason: 'commit-unknown', error: answer.error }
  return { outcome, handlerMs }
}

function runUnclaimedHandler(
  { hold, member, processing }: UnclaimedRun,
  transaction?: InboxTransaction<unknown>,
  outbox?: RunOutbox,
): Promise<TimedEnd> {
  const { call, options, signals } = processing
  const attempt = member.leaseAttempt ?? attemptWithoutRecord(member)
  return runHandler(
    { options, signals, hold, transaction },
    {
      about: { attempt, idempotencyKey: member.event.id, key: member.event.key },
      outbox,
      toEvent: () => toGuardEvent(member, attempt),
      handler: async (event, context) => {
        if (call.kind === 'batch') {
          const error = unrunError(await call.handler([event], context))
          if (error !== undefined) throw error
          return undefined
        }
        const value: unknown = await call.handler(event, context)
        // Nothing is stored, but `afterCommit` reads it, and it may be an effect that has not happened.
        const check = transaction === undefined ? storableAfterEffect : storableResult
        return check(options, member, value)?.value
      },
    },
  )
}

function outcomeOf(options: ResolvedOptions, member: InFlightEvent, end: HandlerEnd): Outcome {
  if (end.kind === 'returned') return { kind: 'unguarded', result: end.value as Json | undefined }
  if (end.kind === 'drained') return { kind: 'abandoned', reason: 'closing' }
  return failureOutcome(options, attemptWithoutRecord(member), end.error)
}

/** Runs a message without a key. A dead letter is recorded before its delivery is settled. */
export async function runWithoutKey(
  processing: Processing,
  member: InFlightEvent,
): Promise<RunEnd> {
  const { handlerMs, outcome } = await runUnclaimed(processing, member)
  return { outcome: await recorded(processing, member, outcome), handlerMs }
}

async function recorded(
  processing: Processing,
  { event: { delivery } }: InFlightEvent,
  outcome: Outcome,
): Promise<Outcome> {
  const session = processing.stores.engine?.session
  if (outcome.kind !== 'dead' || session === undefined) return outcome
  const { error, reason } = outcome
  try {
    const [ref] = await session.refuse([{ delivery, reason, error }])
    return { ...outcome, ref }
  } catch (failure) {
    return storeFailure(processing, failure)
  }
}

/** Permission to run beside other runs: a slot, and the lock that runs share. */
export interface RunPermit {
  readonly hold: Release
  readonly release: () => void
}

/** Like {@link takeSlot}, for a run that never takes place beside an event that must run alone. */
export async function takePermit({
  options,
  signals,
  stores,
}: Pick<Processing, 'options' | 'signals' | 'stores'>): Promise<RunPermit | Outcome> {
  const { runtime } = options
  const { slots } = stores
  const { alone } = runtime
  const slot = slots.tryAcquire() ?? (await takeSlot({ slots, runtime, signals }))
  if (typeof slot !== 'function') return slot
  const hold = alone.tryShared() ?? (await alone.shared({ stop: signals.whenStopping }))
  const release = (): void => {
    hold?.()
    slot()
  }
  if (hold !== undefined && !signals.isStopping()) return { hold, release }
  release()
  return { kind: 'abandoned', reason: 'closing' }
}
