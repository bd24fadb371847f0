import { andThen, isPromise } from '../concurrency/maybe-async.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { LATEST_START_MS } from '../model/attempt-rules.ts'
import type { EventId, Json } from '../model/brands.ts'
import type { GuardEvent } from '../model/delivery.ts'
import {
  type OncewardError,
  RetryableError,
  StoreUnavailableError,
  SWALLOWED_STATEMENT,
  toReadableError,
} from '../model/errors.ts'
import { addTime, type InFlightEvent } from '../model/in-flight-event.ts'
import type { CommitAnswer, InboxTransaction } from '../model/inbox.ts'
import type { Release } from '../model/runtime.ts'
import type { BatchHandler, Handler, HandlerContext } from '../options/options.ts'
import type { Engine } from './engine.ts'
import { type ContextParts, contextFor, eventFor } from './handler-context.ts'
import { claimOf, divided, overtaking, type PendingEvent } from './pending-event.ts'
import {
  type HandlerBounds,
  type HandlerEnd,
  runHandler,
  startLimits,
  toResultText,
} from './run-handler.ts'
import type { TransactionEnd, TransactionFailure } from './transaction-end.ts'

export interface PartRequest {
  readonly members: readonly PendingEvent[]
  /** Maximum wait for one row, ms. */
  readonly waitMs: number
  readonly signals: StopSignals
  readonly hold: Release
}

/** Runs one transaction over one or more events: claim their rows, run the handler for each, commit. */
export async function runTransaction(
  engine: Engine,
  request: PartRequest,
): Promise<TransactionEnd> {
  const { options, session } = engine
  const askedAtMs = options.runtime.monotonic()
  const budgetMs = request.signals.bounded(options.deadlineMs)
  const { members, waitMs } = request
  const { seenDone } = engine
  const likelyDone = seenDone && members.every(({ member }) => seenDone.has(member.event.id))
  const begun = await session.begin({ claim: claimOf(members), waitMs, budgetMs, likelyDone })
  if (options.observe !== undefined)
    addTime(membersOf(members), 'claimMs', options.runtime.monotonic() - askedAtMs)
  if (begun.kind !== 'open') return begun
  const { transaction } = begun
  const [claimed, unclaimed] = divided(members, begun.claimed)
  // The process was frozen. The server has ended the transaction, and a new owner may have run the event.
  const isPast = options.runtime.monotonic() - askedAtMs >= budgetMs
  if (isPast || claimed.some((pending) => isLate(engine, pending))) {
    await transaction.rollback()
    return { kind: 'late' }
  }
  if (overtaking(request.members, claimed).length > 0) {
    await transaction.rollback()
    return { kind: 'overtaking', claimed, unclaimed }
  }
  const { hold, signals } = request
  const running: Running = { engine, transaction, claimed, signals, hold }
  let failure: TransactionFailure | undefined
  try {
    failure = (await runHandlers(running)) ?? commitFailure(running, await commit(running))
  } catch (error) {
    // An error of onceward's own must not leave a transaction open: its rows would be held until the process ends.
    await transaction.rollback()
    throw error
  }
  if (failure !== undefined) return { kind: 'failed', failure, claimed, unclaimed, transaction }
  engine.txWatch.committed(claimed.length, transaction.tx)
  return { kind: 'committed', claimed, unclaimed, results: running.results ?? NONE }
}

const membersOf = (pending: readonly PendingEvent[]): readonly InFlightEvent[] =>
  pending.map(({ member }) => member)

function isLate({ options }: Engine, { counted }: PendingEvent): boolean {
  if (counted === undefined) return false
  return options.runtime.monotonic() - counted.countedAtMs > LATEST_START_MS
}

interface Running {
  readonly engine: Engine
  readonly transaction: InboxTransaction<unknown>
  readonly claimed: readonly PendingEvent[]
  readonly signals: StopSignals
  readonly hold: Release
  /** What the handlers returned. Made for the first result, because most handlers return nothing. */
  results?: Map<EventId, Json>
  texts?: Map<EventId, string>
}

/** No results. */
const NONE: ReadonlyMap<EventId, never> = new Map<EventId, never>()

function runHandlers(running: Running): Promise<TransactionFailure | undefined> {
  const { call } = running.engine
  return call.kind === 'single'
    ? runOneByOne(running, call.handler)
    : runTogether(running, call.handler)
}

/** Handlers of one transaction run one after the other, because row locks do not protect a transaction from itself. */
async function runOneByOne(
  running: Running,
  handler: Handler<unknown, unknown>,
): Promise<TransactionFailure | undefined> {
  const limits = startLimits(boundsOf(running))
  try {
    for (const [index, pending] of running.claimed.entries()) {
      const { lease, refusal } = pending.member
      const end = await limits.run(lease?.lost, (aborting, deadlineAt) => {
        if (refusal !== undefined) throw refusal as Error
        return andThen(eventFor(running.engine, pending), (event) => {
          // The deadline may have passed while the payload was decoded again.
          aborting.throwIfAborted()
          return handler(event, contextOf(running, { aborting, deadlineAt, event }))
        })
      })
      pending.handlerMs = end.handlerMs
      const failure =
        failureOf(running, { end, pending, ran: index + 1 }) ?? keepResult(running, pending, end)
      if (failure !== undefined) return failure
      const isLast = index + 1 === running.claimed.length
      if (!isLast && running.transaction.hasChangedSettings?.() === true)
        return { kind: 'settings' }
    }
    return undefined
  } finally {
    limits.stop()
  }
}

async function runTogether(
  running: Running,
  handler: BatchHandler<unknown, unknown>,
): Promise<TransactionFailure | undefined> {
  const { claimed } = running
  const leaseLost = AbortSignal.any(claimed.flatMap(({ member }) => member.lease?.lost ?? []))
  const end = await runHandler({ ...boundsOf(running), leaseLost }, (aborting, deadlineAt) => {
    for (const { member } of claimed)
      if (member.refusal !== undefined) throw member.refusal as Error
    const making = claimed.map((pending) => eventFor(running.engine, pending))
    const events = making.some(isPromise) ? Promise.all(making) : (making as Events)
    return andThen(events, (all) => {
      aborting.throwIfAborted()
      return handler(all, contextOf(running, { aborting, deadlineAt }))
    })
  })
  for (const pending of claimed) pending.handlerMs = end.handlerMs
  const lost = claimed.find(({ member }) => member.lease?.lost.aborted === true)
  return failureOf(running, { end, pending: lost, ran: claimed.length })
}

function boundsOf({ engine, transaction, signals, hold }: Running): HandlerBounds {
  const { runtime } = engine.options
  const deadlineMs = signals.bounded(engine.options.deadlineMs)
  const revoke = (error: OncewardError): void => transaction.revoke(error)
  return { runtime, deadlineMs, drain: signals.drain, hold, revoke }
}

type Events = readonly GuardEvent<unknown>[]

interface RunParts extends Pick<ContextParts<unknown>, 'aborting' | 'deadlineAt'> {
  /** Undefined for a handler of batches. */
  readonly event?: GuardEvent<unknown> | undefined
}

function contextOf(
  { engine, transaction: { tx } }: Running,
  { aborting, deadlineAt, event }: RunParts,
): HandlerContext<unknown> {
  const run = event === undefined ? {} : { eventId: event.idempotencyKey, attempt: event.attempt }
  return contextFor(engine.options, { tx, aborting, deadlineAt, run, onTx: engine.txWatch.onTx })
}

function keepResult(
  running: Running,
  pending: PendingEvent,
  end: HandlerEnd,
): TransactionFailure | undefined {
  if (end.kind !== 'returned') return undefined
  const { id } = pending.member.event
  try {
    const text = toResultText(end.value)
    if (text === undefined) return undefined
    running.texts ??= new Map()
    running.results ??= new Map()
    running.texts.set(id, text)
    running.results.set(id, end.value as Json)
    return undefined
  } catch (error) {
    return { kind: 'handler', pending, error: toReadableError(error) }
  }
}

interface Ended {
  readonly end: HandlerEnd
  readonly pending: PendingEvent | undefined
  readonly ran: number
}

const ENDED =
  'The handler ended the transaction that onceward owns. Remove the transaction control from the handler.'

function failureOf(running: Running, { end, pending, ran }: Ended): TransactionFailure | undefined {
  if (end.kind === 'lease-lost' && pending !== undefined) {
    return { kind: 'lease-lost', pending, error: end.error }
  }
  if (end.kind === 'drained') return { kind: 'drained', ended: end.ended }
  if (end.kind === 'deadline') {
    if (running.claimed.length > 1) return { kind: 'budget' }
    return { kind: 'handler', pending, error: end.error }
  }
  const error = end.kind === 'threw' ? end.error : undefined
  switch (running.transaction.status()) {
    case 'broken':
      return { kind: 'store', error: error ?? new Error('the connection was lost') }
    case 'ended':
      return { kind: 'ended', ran, error: new RetryableError(ENDED, { cause: error }) }
    case 'failed':
      if (end.kind === 'threw') return failedStatement(running, error, pending)
      return { kind: 'handler', pending, error: new RetryableError(SWALLOWED_STATEMENT) }
    case 'open':
      return end.kind === 'threw' ? { kind: 'handler', pending, error } : undefined
  }
}

/** A foreign server that is down raises the codes of a store that is down. Recording the failure shows which it is. */
function failedStatement(
  running: Running,
  error: unknown,
  pending: PendingEvent | undefined,
): TransactionFailure {
  const kind = running.engine.session.diagnose(error)
  return kind === 'serialization' ? { kind, error } : { kind: 'handler', pending, error }
}

function commit({ claimed, engine, texts: stored, transaction }: Running): Promise<CommitAnswer> {
  const texts: ReadonlyMap<EventId, string> = stored ?? NONE
  const recovered: EventId[] = []
  for (const { counted } of claimed) if (counted !== undefined) recovered.push(counted.event.id)
  const { observe, runtime } = engine.options
  const askedAtMs = runtime.monotonic()
  const committing = transaction.commit({ results: texts, recovered })
  if (observe === undefined) return committing
  return committing.then((answer) => {
    addTime(membersOf(claimed), 'commitMs', runtime.monotonic() - askedAtMs)
    return answer
  })
}

function commitFailure(running: Running, answer: CommitAnswer): TransactionFailure | undefined {
  switch (answer.kind) {
    case 'committed':
      return undefined
    case 'unknown':
      return { kind: 'commit-unknown', error: answer.error }
    case 'not-replicated':
      return { kind: 'not-replicated', error: answer.error }
    case 'rolled-back':
      return answer.error instanceof StoreUnavailableError
        ? { kind: 'store', error: answer.error }
        : failedStatement(running, answer.error, undefined)
  }
}
