import { storableAfterEffect } from '../handler/handler-result.ts'
import { runHandler, type TimedEnd } from '../handler/run-handler.ts'
import { outcomeOfHandler, outcomeWithoutVerdict, storeLoss } from '../handler/run-outcome.ts'
import type { Json } from '../model/brands.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { Release } from '../model/runtime.ts'
import type { Handler } from '../options/options.ts'
import { optionsOf } from '../options/routes.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { failureOutcome } from '../settlement/retry-rule.ts'
import { storeDown, storeFailure } from '../settlement/store-down.ts'
import { type Engine, handlerOf } from '../transaction/engine.ts'
import { attemptOf, type PendingEvent, toPendingEvent } from '../transaction/pending-event.ts'
import { runTransaction } from '../transaction/transaction.ts'
import {
  hasStoreFailed,
  type TransactionEnd,
  type TransactionFailure,
} from '../transaction/transaction-end.ts'
import { end } from './end-event.ts'
import { takePermit } from './permit.ts'
import type { Processing } from './processing.ts'
import type { Routed } from './route.ts'

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
    const end = await runWithoutTransaction(run)
    const outcome: Outcome =
      end.kind === 'returned'
        ? { kind: 'unguarded', result: end.value as Json | undefined }
        : outcomeOfHandler(
            {
              ...{ member, options: optionsOf(processing.options, member) },
              ...{ attempt: attemptWithoutRecord(member), defers: processing.stores.localDefers },
            },
            end,
          )
    return { outcome, handlerMs: end.handlerMs }
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
  const { hold, member, processing } = run
  const pending = { ...toPendingEvent(member), attempt: attemptWithoutRecord(member) }
  const { signals } = processing
  let outcome: Outcome
  try {
    const ended = await runTransaction(engine, {
      ...{ members: [pending], claim: { kind: 'none' }, waitMs: 0, signals, hold },
    })
    if (!hasStoreFailed(ended)) engine.breaker.succeeded()
    outcome = await outcomeOf(processing, engine, { pending, ended })
  } catch (error) {
    outcome = storeFailure(processing, error)
  }
  return { outcome, handlerMs: pending.handlerMs }
}

async function outcomeOf(
  { options, stores }: Processing,
  engine: Engine,
  { ended, pending }: { readonly pending: PendingEvent; readonly ended: TransactionEnd },
): Promise<Outcome> {
  const { id } = pending.member.event
  switch (ended.kind) {
    case 'committed':
      engine.heldBackoff.forget(id)
      return { kind: 'unguarded', result: ended.results.get(id) }
    case 'late':
      // The process was frozen.
      return { kind: 'in-progress', delayMs: engine.heldBackoff.nextMs(id), cause: 'deadline' }
    case 'failed':
      await ended.transaction.rollback()
      if (ended.failure.kind === 'deferred') {
        const deferral = { attempt: attemptOf(pending), delayMs: ended.failure.delayMs }
        return stores.localDefers.outcomeOf(options, pending.member, deferral)
      }
      return failureOf(engine, pending, ended.failure)
    case 'held':
    case 'none':
    case 'overtaking':
      throw new Error('A transaction without a claim did not open.')
  }
}

/** The broker counts the attempts, so nothing of a failure is recorded and nothing runs again at once. */
function failureOf(
  { heldBackoff, options }: Engine,
  pending: PendingEvent,
  failure: Exclude<TransactionFailure, { kind: 'deferred' }>,
): Outcome {
  switch (failure.kind) {
    case 'handler':
    case 'serialization':
    case 'ended':
      return failureOutcome(optionsOf(options, pending.member), attemptOf(pending), failure.error)
    case 'store':
      return {
        ...storeDown(storeLoss(options, failure.error)),
        delayMs: heldBackoff.nextMs(pending.member.event.id),
      }
    case 'drained':
    case 'lease-lost':
    case 'commit-unknown':
    case 'not-replicated':
      return outcomeWithoutVerdict(failure)
    case 'budget':
    case 'settings':
      throw new Error('Only several events share the time and the settings of a transaction.')
  }
}

/** Without an inbox, so there is no batch handler either. */
function runWithoutTransaction({ hold, member, processing }: UnclaimedRun): Promise<TimedEnd> {
  const { call, signals } = processing
  const options = optionsOf(processing.options, member)
  const handler = handlerOf<unknown>(call, member) as Handler<unknown, unknown>
  const attempt = attemptWithoutRecord(member)
  return runHandler(
    { options, signals, hold },
    {
      about: { attempt, idempotencyKey: member.event.id, key: member.event.key, type: member.type },
      toEvent: () => toGuardEvent(member, attempt),
      handler: async (event, context) => {
        const value: unknown = await handler(event, context)
        // Nothing is stored, but `afterCommit` reads it, and it may be an effect that has not happened.
        return storableAfterEffect(options, member, value)?.value
      },
    },
  )
}

/** Runs messages without keys. A dead letter is recorded before its delivery is settled. */
export async function runWithoutKeys(
  processing: Processing,
  events: readonly Routed[],
): Promise<void> {
  for (const event of events) {
    const { handlerMs, outcome } = await runUnclaimed(processing, event.member)
    await end(processing, event, await recorded(processing, event.member, outcome), handlerMs)
  }
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
