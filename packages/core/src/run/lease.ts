import { assertStorable, storableAfterEffect } from '../handler/handler-result.ts'
import { runHandler } from '../handler/run-handler.ts'
import { outcomeOfHandler } from '../handler/run-outcome.ts'
import { type Claimed, type Leases, unrecordedConflict } from '../lease/claim.ts'
import type { Json } from '../model/brands.ts'
import { LeaseLostError, StoreUnavailableError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import type { Release } from '../model/runtime.ts'
import type { Handler, HandlerContext, Takeover } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { optionsOf } from '../options/routes.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { storeDown } from '../settlement/store-down.ts'
import { handlerOf } from '../transaction/engine.ts'
import { end } from './end-event.ts'
import { attemptWithoutRecord, type RunEnd, runUnclaimed } from './none.ts'
import { takePermit } from './permit.ts'
import type { Processing } from './processing.ts'
import type { Routed } from './route.ts'

/** Maximum number of tries to store a result. The next try starts when the store did not answer the previous one. */
const COMPLETE_TRIES = 3

/** The result of the run of one claimed event. */
interface LeasedEnd extends RunEnd {
  /** True once `onTakeover` has answered. */
  readonly isDecided?: boolean | undefined
}

type ClaimedRun = Extract<Claimed, { kind: 'run' }>

/**
 * The strategy `lease`, for a guard without an inbox: one owner at a time, replayed results, and a policy for takeovers.
 */
export async function runByLease(processing: Processing, events: readonly Routed[]): Promise<void> {
  for (const event of events) await runClaimed(processing, event)
}

async function runClaimed(processing: Processing, event: Routed): Promise<void> {
  const { claimed } = event
  switch (claimed?.kind) {
    case undefined:
      throw new Error('Without an inbox, each event is claimed.')
    case 'outcome':
      return end(processing, event, claimed.outcome)
    case 'conflict':
      return end(processing, event, unrecordedConflict(processing.options, event.member))
    case 'unavailable':
      return runUnavailable(processing, event, claimed.error)
    case 'run':
      return runWithPermit(processing, event, claimed)
  }
}

async function runUnavailable(
  processing: Processing,
  event: Routed,
  error: unknown,
): Promise<void> {
  if (processing.options.onStoreDown !== 'unguarded') {
    return end(processing, event, storeDown(error))
  }
  const { handlerMs, outcome } = await runUnclaimed(processing, event.member)
  return end(processing, event, outcome, handlerMs)
}

/** Other runs wait until the lease store knows the outcome: the next event that runs alone may kill the process. */
async function runWithPermit(
  processing: Processing,
  event: Routed,
  claimed: ClaimedRun,
): Promise<void> {
  const permit = await takePermit(processing)
  if ('kind' in permit) return end(processing, event, permit)
  try {
    const { handlerMs, isDecided, outcome } = await runHandlerOf(processing, claimed, permit.hold)
    if (isDecided === true) event.member = { ...event.member, isUndecided: false }
    await end(processing, event, outcome, handlerMs)
  } finally {
    permit.release()
  }
}

async function runHandlerOf(
  processing: Processing,
  { member, takeover }: ClaimedRun,
  hold: Release,
): Promise<LeasedEnd> {
  const { call, signals, stores } = processing
  const options = optionsOf(processing.options, member)
  const handler = handlerOf<unknown>(call, member) as Handler<unknown, undefined>
  const leases = stores.leases as Leases
  // The event may have waited long for its slot and for the lock.
  if (!(await leases.renewer.isSafe(member))) {
    const error = new LeaseLostError('The lease was lost before the handler could start.')
    return { outcome: { kind: 'abandoned', reason: 'lease-lost', error }, handlerMs: undefined }
  }
  const attempt = member.leaseAttempt ?? attemptWithoutRecord(member)
  let isDecided = false
  /** The handler is never a batch handler: batches need an inbox, and the options are refused without one. */
  const run = async (event: Event, context: HandlerContext<undefined>): Promise<Takeover> => {
    const value: unknown = await handler(event, context)
    return { kind: 'done', result: storableAfterEffect(options, member, value)?.value }
  }
  const end = await runHandler(
    { options, signals, hold },
    {
      about: { attempt, idempotencyKey: member.event.id, key: member.event.key, type: member.type },
      leaseLost: member.lease?.lost,
      toEvent: () => toGuardEvent(member, attempt),
      handler: async (event, context): Promise<Takeover> => {
        // Without an inbox, nothing is `tx`.
        const leased = context as HandlerContext<undefined>
        const decision: Takeover = takeover
          ? await takeOver(options, event, leased)
          : { kind: 'retry' }
        // An answer after the deadline is ignored: another process may have called `onTakeover` meanwhile.
        context.signal.throwIfAborted()
        isDecided = true
        return decision.kind === 'retry' ? run(event, leased) : decision
      },
    },
  )
  const outcome =
    end.kind === 'returned'
      ? await completeLeased(leases, member, end.value as Takeover)
      : outcomeOfHandler({ options, member, attempt, defers: stores.localDefers }, end)
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

/** Stores the result before the call to the broker. If `complete` were lost, the effect could happen again. */
async function completeLeased(
  { options, store }: Leases,
  member: InFlightEvent,
  value: Takeover,
): Promise<Outcome> {
  const attempt = member.leaseAttempt ?? 1
  if (value.kind !== 'done') return { kind: 'dead', reason: 'takeover', attempt }
  const { result } = value
  if (member.lease === undefined) return { kind: 'unguarded', result }
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
