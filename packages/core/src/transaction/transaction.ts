import { isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { storableResult } from '../handler/handler-result.ts'
import type { DoneEvent } from '../handler/late-statements.ts'
import { Collected, RunOutbox } from '../handler/outbox.ts'
import {
  type HandlerEnd,
  HandlerLimits,
  type HandlerRun,
  type HandlerScope,
  runHandler,
  type TimedEnd,
} from '../handler/run-handler.ts'
import type { EventId } from '../model/brands.ts'
import type { GuardEvent } from '../model/delivery.ts'
import {
  concernsStore,
  RetryableError,
  SWALLOWED_STATEMENT,
  toReadableError,
  unrunError,
} from '../model/errors.ts'
import { addTime, type InFlightEvent } from '../model/in-flight-event.ts'
import type { CommitAnswer } from '../model/inbox.ts'
import { tightestOf } from '../options/routes.ts'
import { nextOf } from './chain.ts'
import { type Engine, type HandlerCall, handlerOf } from './engine.ts'
import { attemptOf, claimOf, eventFor, type PendingEvent } from './pending-event.ts'
import { LATE, misbegun, type PartRequest, type Running, toRunning } from './running.ts'
import type { TransactionEnd, TransactionFailure } from './transaction-end.ts'
import { inRunsOfType } from './type-runs.ts'

/** Runs one transaction over one or more events: claim their rows, run the handler for each, commit. */
export async function runTransaction(
  engine: Engine,
  request: PartRequest,
): Promise<TransactionEnd> {
  const { runtime } = engine.options
  const { aboard } = request
  const askedAtMs = aboard?.askedAtMs ?? runtime.monotonic()
  const { members, waitMs } = request
  const { options } = engine
  const limits = options.routes && tightestOf(options, membersOf(members))
  const budgetMs = request.signals.bounded((limits ?? options).deadlineMs)
  const { seenDone } = engine
  let likelyDone = request.claim === undefined
  for (const { member } of members) likelyDone &&= seenDone.has(member.event.id)
  const claim = request.claim ?? claimOf(members)
  const asked = { claim, waitMs, budgetMs, likelyDone }
  const begun = await (aboard === undefined
    ? engine.session.begin(asked)
    : aboard.takeOr(members.length, () => engine.session.begin(asked)))
  if (engine.options.observe !== undefined)
    addTime(membersOf(members), 'claimMs', runtime.monotonic() - askedAtMs)
  if (begun.kind !== 'open') return begun
  // The process was frozen. The server has ended the transaction, and a new owner may have run the event.
  const isPast = runtime.monotonic() - askedAtMs >= budgetMs
  const running = toRunning(engine, request, begun)
  const end = isPast ? LATE : misbegun(running, members)
  if (end !== undefined) {
    await begun.transaction.rollback()
    return end
  }
  try {
    const { call } = engine
    const failed =
      call.kind === 'single' ? await runOneByOne(running, call) : await runTogether(running, call)
    if (failed !== undefined) return endOf(running, failed)
    const answer = await commit(running)
    return endOf(running, answer.kind === 'committed' ? undefined : commitFailure(running, answer))
  } catch (error) {
    // An error of onceward's own must not leave a transaction open: its rows would be held until the process ends.
    await begun.transaction.rollback()
    throw error
  }
}

function endOf(running: Running, failure: TransactionFailure | undefined): TransactionEnd {
  const { claimed, engine, transaction, unclaimed } = running
  if (failure !== undefined) return { kind: 'failed', failure, claimed, unclaimed, transaction }
  if (engine.txWatch.isWatching)
    engine.txWatch.committed(claimed.length, {
      transaction,
      hasMessages: running.collected !== undefined,
    })
  return { kind: 'committed', claimed, unclaimed, results: running.results ?? NONE }
}

type Single = Extract<HandlerCall, { kind: 'single' }>

const membersOf = (pending: readonly PendingEvent[]): readonly InFlightEvent[] =>
  pending.map(({ member }) => member)

/** No results. */
const NONE: ReadonlyMap<EventId, never> = new Map<EventId, never>()

/** Handlers of one transaction run one after the other, because row locks do not protect a transaction from itself. */
function runOneByOne(running: Running, call: Single): Promise<TransactionFailure | undefined> {
  return new Promise((resolve, reject) => {
    const limits = new HandlerLimits(scopeOf(running))
    const runNext = (at: number): void => {
      const pending = running.claimed[at] as PendingEvent
      limits.run(runOf(running, pending, call), (end) => {
        try {
          const ran = at + 1
          const failure = afterOne(running, { end, pending, ran })
          if (failure === undefined && ran < running.claimed.length) {
            runNext(ran)
            return
          }
          limits.stop()
          resolve(failure)
        } catch (error) {
          limits.stop()
          reject(error)
        }
      })
    }
    runNext(0)
  })
}

function scopeOf(running: Running): HandlerScope {
  const { claimed, engine, hold, signals, transaction, unclaimed } = running
  const { options } = engine
  const limits = options.routes && tightestOf(options, membersOf([...claimed, ...unclaimed]))
  return { options: limits ?? options, signals, hold, transaction, txWatch: engine.txWatch }
}

/** Whether the time of the transaction was that of several events, also of those that it did not get. */
const isTimeShared = ({ claimed, engine, unclaimed }: Running): boolean =>
  claimed.length > 1 || (engine.options.routes !== undefined && unclaimed.length > 0)

/** Undefined: the inbox stores no messages. */
function outboxOf(running: Running, events: readonly PendingEvent[]): RunOutbox | undefined {
  const { options, session } = running.engine
  if (session.sendsMessages !== true) return undefined
  const ids = running.claims === 'none' ? [] : events.map(({ member }) => member.event.id)
  return new RunOutbox(options, ids, (message) => {
    running.collected ??= new Collected()
    running.collected.add(message, running.transaction.savepoint?.())
  })
}

function runOf(
  running: Running,
  pending: PendingEvent,
  call: Single,
): HandlerRun<GuardEvent<unknown>> {
  const { engine } = running
  const { event, lease, refusal, type } = pending.member
  const attempt = attemptOf(pending)
  return {
    outbox: outboxOf(running, [pending]),
    leaseLost: lease?.lost,
    hasNext: pending !== running.claimed.at(-1),
    about: { attempt, idempotencyKey: event.id, key: event.key, type },
    toEvent: () => {
      if (refusal !== undefined) throw refusal as Error
      return eventFor(engine, pending, attempt)
    },
    handler: call.byType === undefined ? call.handler : handlerOf(call, pending.member),
  }
}

function afterOne(running: Running, result: OneResult): TransactionFailure | undefined {
  const { end, pending, ran } = result
  pending.handlerMs = end.handlerMs
  const hasResult = running.claims !== 'move' && end.kind === 'returned' && end.value !== undefined
  const failure =
    failureOf(running, result) ?? (hasResult ? keepResult(running, pending, end.value) : undefined)
  if (failure !== undefined || ran === running.claimed.length) return failure
  return running.transaction.hasChangedSettings?.() === true ? { kind: 'settings' } : undefined
}

interface OneResult extends RunResult {
  readonly end: TimedEnd
  readonly pending: PendingEvent
}

async function runTogether(
  running: Running,
  call: Extract<HandlerCall, { kind: 'batch' }>,
): Promise<TransactionFailure | undefined> {
  const { claimed, engine } = running
  const leaseLost = AbortSignal.any(claimed.flatMap(({ member }) => member.lease?.lost ?? []))
  const toEvents = (): MaybeAsync<Events> => {
    for (const { member } of claimed)
      if (member.refusal !== undefined) throw member.refusal as Error
    const making = claimed.map((pending) => eventFor(engine, pending, attemptOf(pending)))
    return making.some(isPromise) ? Promise.all(making) : (making as Events)
  }
  const outbox = outboxOf(running, claimed)
  const handler = call.byType === undefined ? call.handler : inRunsOfType(call, claimed)
  const end = await runHandler(scopeOf(running), { leaseLost, toEvent: toEvents, handler, outbox })
  for (const pending of claimed) pending.handlerMs = end.handlerMs
  const lost = claimed.find(({ member }) => member.lease?.lost.aborted === true)
  const failure = failureOf(running, { end, pending: lost, ran: claimed.length })
  return failure ?? (end.kind === 'returned' ? unrun(end.value) : undefined)
}

/** What else a handler for batches returns is ignored. */
function unrun(value: unknown): TransactionFailure | undefined {
  const error = unrunError(value)
  return error && { kind: 'handler', pending: undefined, error }
}

type Events = readonly GuardEvent<unknown>[]

function keepResult(
  running: Running,
  pending: PendingEvent,
  value: unknown,
): TransactionFailure | undefined {
  const { id } = pending.member.event
  try {
    const kept = storableResult(running.engine.options, pending.member, value)
    if (kept === undefined) return undefined
    running.results ??= new Map()
    running.results.set(id, kept.value)
    if (running.claims === 'none') return undefined
    running.texts ??= new Map()
    running.texts.set(id, kept.text)
    return undefined
  } catch (error) {
    return { kind: 'handler', pending, error: toReadableError(error) }
  }
}

interface RunResult {
  readonly end: HandlerEnd
  readonly pending: PendingEvent | undefined
  readonly ran: number
}

const ENDED =
  'The handler ended the transaction that onceward owns. Remove the transaction control from the handler.'

function failureOf(
  running: Running,
  { end, pending, ran }: RunResult,
): TransactionFailure | undefined {
  if (end.kind === 'lease-lost' && pending !== undefined) {
    return { kind: 'lease-lost', pending, error: end.error }
  }
  if (end.kind === 'drained') return { kind: 'drained', ended: end.ended }
  if (end.kind === 'deadline') {
    if (isTimeShared(running)) return { kind: 'budget' }
    return { kind: 'handler', pending, error: end.error }
  }
  const error = end.kind === 'threw' ? end.error : undefined
  const hasThrown = end.kind !== 'returned'
  const mistake = running.transaction.ended?.(hasThrown ? (error ?? null) : undefined)
  switch (running.transaction.status()) {
    case 'broken':
      return lostConnection(running, pending, error)
    case 'ended':
      return { kind: 'ended', ran, error: new RetryableError(ENDED, { cause: error }) }
    case 'failed':
      if (end.kind === 'deferred') return { kind: 'deferred', pending, delayMs: end.delayMs }
      if (mistake !== undefined) return { kind: 'handler', pending, error: mistake }
      if (end.kind === 'threw') return failedStatement(running, end, pending)
      return { kind: 'handler', pending, error: new RetryableError(SWALLOWED_STATEMENT) }
    case 'open':
      if (end.kind === 'deferred') return { kind: 'deferred', pending, delayMs: end.delayMs }
      if (mistake !== undefined) return { kind: 'handler', pending, error: mistake }
      return end.kind === 'threw' ? { kind: 'handler', pending, error } : undefined
  }
}

/** A lost connection says nothing about the event, unless the store ended it because the handlers took too long. */
function lostConnection(
  running: Running,
  pending: PendingEvent | undefined,
  error: unknown,
): TransactionFailure {
  const late = running.transaction.outOfTime?.(error)
  if (late === undefined) {
    return { kind: 'store', error: error ?? new Error('the connection was lost') }
  }
  return isTimeShared(running) ? { kind: 'budget' } : { kind: 'handler', pending, error: late }
}

/**
 * A foreign server that is down raises the codes of a store that is down. Recording the failure shows which it is. The
 * store bounds each statement by the deadline too, and its error may come before the guard's own timer.
 */
function failedStatement(
  running: Running,
  { error, late }: Pick<Extract<HandlerEnd, { kind: 'threw' }>, 'error' | 'late'>,
  pending: PendingEvent | undefined,
): TransactionFailure {
  const kind = running.engine.session.diagnose(error)
  if (kind === 'serialization') return { kind, error }
  return { kind: 'handler', pending, error: late ?? error }
}

function commit(running: Running): Promise<CommitAnswer> {
  const { claimed, collected, driver, engine, texts: stored, transaction } = running
  const texts: ReadonlyMap<EventId, string> = stored ?? NONE
  const recovered: EventId[] = []
  for (const { counted } of claimed) if (counted !== undefined) recovered.push(counted.event.id)
  const { observe, runtime } = engine.options
  const onLate = engine.late.reporterOf(() => doneOf(running))
  const stores = { results: texts, recovered, sends: collected?.messages, onLate }
  const next = engine.slots.waiting === 0 ? undefined : nextOf(engine, driver, claimed.length)
  if (observe === undefined) return transaction.commit(stores, next)
  const askedAtMs = runtime.monotonic()
  return transaction.commit(stores, next).then((answer) => {
    addTime(membersOf(claimed), 'commitMs', runtime.monotonic() - askedAtMs)
    return answer
  })
}

/** Events without a key have no id. */
function doneOf({ claimed, claims }: Running): readonly DoneEvent[] {
  if (claims === 'none') return []
  return claimed.map((pending) => ({ member: pending.member, attempt: attemptOf(pending) }))
}

function commitFailure(
  running: Running,
  answer: Exclude<CommitAnswer, { kind: 'committed' }>,
): TransactionFailure {
  switch (answer.kind) {
    case 'unknown':
      return { kind: 'commit-unknown', error: answer.error }
    case 'not-replicated':
      return { kind: 'not-replicated', error: answer.error }
    case 'rolled-back':
      return concernsStore(answer.error)
        ? { kind: 'store', error: answer.error }
        : failedStatement(running, { error: answer.error }, undefined)
  }
}
