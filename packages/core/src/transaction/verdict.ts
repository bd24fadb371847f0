import { deferredTooOften } from '../handler/deferral.ts'
import type { Burial, Failure, InboxTransaction, VerdictAnswer } from '../model/inbox.ts'
import { optionsOf } from '../options/routes.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { callerFailure, decideRetry, deferredOutcome } from '../settlement/retry-rule.ts'
import type { Engine } from './engine.ts'
import type { PendingEvent } from './pending-event.ts'

/**
 * Records the verdict about an event that was alone in its transaction, and ends that transaction if it is open.
 * Returns undefined if the row has another owner. Nothing is changed then, and the event is read again.
 */
export async function recordFailure(
  engine: Engine,
  pending: PendingEvent,
  failed: { readonly transaction?: InboxTransaction<unknown>; readonly error: unknown },
): Promise<Outcome | undefined> {
  const { error, transaction } = failed
  const attempt = pending.counted?.attempt ?? 1
  if (engine.options.callerRetries !== undefined && pending.counted === undefined) {
    await transaction?.rollback()
    return callerFailure(attempt, error)
  }
  const decision = decideRetry(optionsOf(engine.options, pending.member), attempt, error)
  const { event } = pending.member
  const verdict = { event, token: pending.counted?.token, attempt, error }
  if (decision.kind === 'bury') {
    await transaction?.rollback()
    const burial: Burial = { ...verdict, reason: decision.reason }
    const [answer] = await engine.session.bury([burial])
    if (answer === 'lost') return undefined
    const ref = { kind: 'event', id: event.id } as const
    return { kind: 'dead', reason: decision.reason, attempt, error, ref }
  }
  const failure: Failure = { ...verdict, delayMs: decision.delayMs }
  const [answer] = await (transaction?.rollbackAndFail([failure]) ?? engine.session.fail([failure]))
  return answer === 'lost'
    ? undefined
    : { kind: 'failed', attempt, delayMs: decision.delayMs, error, cause: 'handler-failed' }
}

/**
 * Records that the handler asked to come back later, and ends its transaction if it is open: no attempt, unless it has
 * deferred the event too often. Returns undefined if the row has another owner.
 */
export async function recordDeferral(
  engine: Engine,
  pending: PendingEvent,
  {
    delayMs,
    transaction,
  }: { readonly transaction?: InboxTransaction<unknown>; readonly delayMs: number },
): Promise<Outcome | undefined> {
  const { callerRetries, maxDefers: most } = engine.options
  const attempt = pending.counted?.attempt ?? 1
  const isOfCaller = callerRetries !== undefined && pending.counted === undefined
  const deferral: Failure = {
    ...{ event: pending.member.event, token: pending.counted?.token, attempt, delayMs },
    ...{ error: undefined, deferral: { most } },
  }
  let answer: VerdictAnswer | undefined = isOfCaller ? 'recorded' : 'spent'
  if (isOfCaller || most === 0) await transaction?.rollback()
  else {
    const recording = transaction?.rollbackAndFail([deferral]) ?? engine.session.fail([deferral])
    answer = (await recording)[0]
  }
  if (answer === 'spent') return recordFailure(engine, pending, { error: deferredTooOften(most) })
  return answer === 'lost' ? undefined : deferredOutcome(attempt, delayMs)
}

/** Releases counted runs that ended without a verdict while this process lives. Never throws. */
export async function releaseRuns(
  engine: Engine,
  members: readonly PendingEvent[],
  as: 'given-back' | 'no-verdict',
): Promise<void> {
  const releases = members.flatMap(({ counted }) =>
    counted === undefined ? [] : [{ event: counted.event, token: counted.token, as }],
  )
  if (releases.length > 0) await engine.lateReleases.release(releases)
}

/** Releases runs that have not started. No attempt is counted, and each event takes the same step again later. */
export async function releaseUnstarted(
  engine: Engine,
  members: readonly PendingEvent[],
): Promise<void> {
  await releaseRuns(engine, members, 'given-back')
  for (const pending of members) pending.counted = undefined
}
