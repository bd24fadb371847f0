import { isPromise, isThenable, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { ABORT_GRACE_MS, type StopSignals } from '../concurrency/stop-signals.ts'
import {
  DeadlineExceededError,
  LeaseLostError,
  type OncewardError,
  toReadableError,
} from '../model/errors.ts'
import type { InboxTransaction } from '../model/inbox.ts'
import type { Release } from '../model/runtime.ts'
import type { HandlerContext } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { Deferring } from './deferral.ts'
import { type ContextParts, contextFor, type TxWatch } from './handler-context.ts'
import type { RunOutbox } from './outbox.ts'

export type HandlerEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  /** `late`: the deadline has passed too, and only its timer comes after the error. */
  | { readonly kind: 'threw'; readonly error: unknown; readonly late?: DeadlineExceededError }
  /** The handler ran past its deadline. It may still run, but its transaction handle refuses. */
  | { readonly kind: 'deadline'; readonly error: DeadlineExceededError }
  | { readonly kind: 'lease-lost'; readonly error: LeaseLostError }
  /** The handler asked to come back later: whatever it returned or threw, nothing of it may stay. */
  | { readonly kind: 'deferred'; readonly delayMs: number }
  /** A drain ran out of time. `ended`: the handler has stopped. */
  | { readonly kind: 'drained'; readonly ended: boolean }

/** Timers and the stores count whole milliseconds. */
const ROUNDING_MS = 1

/** Where handlers run, whatever claims their events: a row, a lease or nothing. The limits are those of all together. */
export interface HandlerScope {
  readonly options: ResolvedOptions
  readonly signals: StopSignals
  /** Of the lock that runs share with events that must run alone. Runs that the handler starts are part of it. */
  readonly hold: Release
  /** Undefined without a transaction. Its handle refuses before the handler's signal aborts. */
  readonly transaction?: Pick<InboxTransaction<unknown>, 'tx' | 'revoke' | 'runHandler'> | undefined
  readonly txWatch?: TxWatch | undefined
}

/** One run of the handler. */
export interface HandlerRun<Event> {
  /** May throw or reject: the run has failed then. */
  readonly toEvent: () => MaybeAsync<Event>
  /** What the handler's log lines name. Undefined for a batch of events. */
  readonly about?: ContextParts<unknown>['event']
  readonly handler: (event: Event, context: HandlerContext<unknown>) => unknown
  /** Whether another handler of the same transaction follows. Left out: none. */
  readonly hasNext?: boolean | undefined
  /** Undefined if the handler cannot send. */
  readonly outbox?: RunOutbox | undefined
  /** Aborted when the lease is lost. */
  readonly leaseLost?: AbortSignal | undefined
}

export type TimedEnd = HandlerEnd & { readonly handlerMs: number | undefined }

/** Runs a handler. Resolves as soon as its end is known, at the latest at its deadline. Never rejects. */
export function runHandler<Event>(scope: HandlerScope, run: HandlerRun<Event>): Promise<TimedEnd> {
  return new Promise((resolve) => {
    const limits = new HandlerLimits(scope)
    limits.run(run, (end) => {
      limits.stop()
      resolve(end)
    })
  })
}

/**
 * Runs the handlers of one transaction, one after the other, with one timer and one listener for all of them, because
 * one for each handler would be expensive.
 */
export class HandlerLimits {
  readonly #scope: HandlerScope
  readonly #deadline: Deadline
  readonly #stopTimer: () => void
  readonly #stopListening: (() => void) | undefined
  #current: WatchedRun | undefined
  #isPast = false

  constructor(scope: HandlerScope) {
    const { options, signals } = scope
    const { runtime } = options
    const { drain } = signals
    const limitMs = signals.bounded(options.deadlineMs)
    this.#scope = scope
    const lateAtMs = runtime.monotonic() + limitMs - ROUNDING_MS
    this.#deadline = { limitMs, lateAtMs, wallMs: runtime.now() + limitMs }
    this.#stopTimer = runtime.setTimer(() => {
      this.#isPast = true
      this.#current?.passDeadline()
    }, limitMs)
    this.#stopListening =
      drain === undefined ? undefined : listen(drain, () => this.#current?.drain())
  }

  /**
   * Like {@link runHandler}, until the deadline that all handlers share. Calls back once, possibly before it returns: a
   * promise for every handler would cost more than most handlers.
   */
  run<Event>(handlerRun: HandlerRun<Event>, onEnd: (end: TimedEnd) => void): void {
    const { leaseLost } = handlerRun
    const run = new WatchedRun(this.#scope, { deadline: this.#deadline, leaseLost }, onEnd)
    // The lease was lost while the event waited for its turn. The handler must not run beside the new owner.
    if (leaseLost?.aborted === true) {
      run.loseLease()
      return
    }
    this.#current = run
    // The handler starts anyway, like a handler that starts a moment before the deadline.
    if (this.#isPast) queueMicrotask(() => run.passDeadline())
    else if (this.#scope.signals.drain?.aborted === true) queueMicrotask(() => run.drain())
    run.start(handlerRun)
  }

  stop(): void {
    this.#stopTimer()
    this.#stopListening?.()
  }
}

interface Deadline {
  /** Milliseconds for all handlers together. */
  readonly limitMs: number
  /** What the handler gets. */
  readonly wallMs: number
  /** On the monotonic clock: an error that comes later is late, although its timer comes after it. */
  readonly lateAtMs: number
}

/** A handler that runs until the first of several ends. */
class WatchedRun {
  readonly #scope: HandlerScope
  readonly #deadline: Deadline
  readonly #onEnd: (end: TimedEnd) => void
  readonly #startedAtMs: number | undefined
  readonly #aborting = new AbortController()
  readonly #stopListening: (() => void) | undefined
  #stopGrace: (() => void) | undefined
  #deferring: Deferring | undefined
  #outbox: RunOutbox | undefined
  #isOver = false
  #isDrained = false

  constructor(
    scope: HandlerScope,
    { deadline, leaseLost }: { readonly deadline: Deadline } & Pick<HandlerRun<never>, 'leaseLost'>,
    onEnd: (end: TimedEnd) => void,
  ) {
    const { observe, runtime } = scope.options
    this.#scope = scope
    this.#deadline = deadline
    this.#onEnd = onEnd
    // Only the hook reads how long the handler ran.
    this.#startedAtMs = observe === undefined ? undefined : runtime.monotonic()
    this.#stopListening =
      leaseLost === undefined ? undefined : listen(leaseLost, () => this.loseLease())
  }

  start<Event>(run: HandlerRun<Event>): void {
    const { hold, options, transaction } = this.#scope
    this.#outbox = run.outbox
    const handler = transaction?.runHandler === undefined ? run.handler : this.#inside(run)
    let result: unknown
    try {
      const context = this.#context(run.about)
      result = options.runtime.alone.runInside(hold, () => {
        const event = run.toEvent()
        if (!isPromise(event)) return handler(event, context)
        return event.then((made) => {
          // The deadline may have passed while the event was made.
          context.signal.throwIfAborted()
          return handler(made, context)
        })
      })
      if (isThenable(result)) {
        Promise.resolve(result).then(
          (value) => this.#end({ kind: 'returned', value }),
          (thrown: unknown) => this.#threw(thrown),
        )
        return
      }
    } catch (thrown) {
      this.#threw(thrown)
      return
    }
    this.#end({ kind: 'returned', value: result })
  }

  /** The handler, run by the transaction. */
  #inside<Event>({ about, handler, hasNext }: HandlerRun<Event>): HandlerRun<Event>['handler'] {
    const eventId = about === undefined || about.key === '' ? undefined : about.idempotencyKey
    const turn = { eventId, isLast: hasNext !== true }
    return (event, context) =>
      this.#scope.transaction?.runHandler?.(() => handler(event, context), turn)
  }

  #context(event: HandlerRun<never>['about']): HandlerContext<unknown> {
    const { options, transaction, txWatch } = this.#scope
    const deferring = (): Deferring => {
      this.#deferring ??= new Deferring(options, () => this.#isOver)
      return this.#deferring
    }
    const deadlineAt = new Date(this.#deadline.wallMs)
    const run = { tx: transaction?.tx, txWatch, aborting: this.#aborting, deadlineAt, event }
    return contextFor(options, { ...run, outbox: this.#outbox, deferring })
  }

  passDeadline(): void {
    this.#cut(pastDeadline(this.#deadline))
  }

  loseLease(): void {
    this.#cut(lostLease())
  }

  drain(): void {
    if (this.#isOver || this.#isDrained) return
    this.#isDrained = true
    this.#aborting.abort(
      new DeadlineExceededError('The consumer is shutting down. The event is redelivered later.'),
    )
    const giveUp = (): void => this.#end({ kind: 'drained', ended: false })
    this.#stopGrace = this.#scope.options.runtime.setTimer(giveUp, ABORT_GRACE_MS)
  }

  #threw(thrown: unknown): void {
    if (this.#isDrained) {
      this.#end({ kind: 'drained', ended: true })
      return
    }
    const error = toReadableError(thrown)
    const isLate = this.#scope.options.runtime.monotonic() >= this.#deadline.lateAtMs
    const late = isLate ? { late: pastDeadline(this.#deadline, { cause: error }).error } : {}
    this.#end({ kind: 'threw', error, ...late })
  }

  #cut(how: HandlerEnd & { readonly error: OncewardError }): void {
    if (this.#isOver) return
    this.#scope.transaction?.revoke(how.error)
    this.#aborting.abort(how.error)
    this.#end(how)
  }

  #end(how: HandlerEnd): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#outbox?.end()
    this.#stopGrace?.()
    this.#stopListening?.()
    const startedAtMs = this.#startedAtMs
    const handlerMs =
      startedAtMs === undefined ? undefined : this.#scope.options.runtime.monotonic() - startedAtMs
    const delayMs = this.#deferring?.delayMs
    const isDeferred = delayMs !== undefined && (how.kind === 'returned' || how.kind === 'threw')
    const end: HandlerEnd = isDeferred ? { kind: 'deferred', delayMs } : how
    this.#onEnd({ ...end, handlerMs })
  }
}

function pastDeadline(
  { limitMs }: Deadline,
  options?: ErrorOptions,
): Extract<HandlerEnd, { kind: 'deadline' }> {
  const message =
    `The handler ran past its deadline of ${Math.round(limitMs)} ms, so this run has failed. ` +
    'Make the handler faster, or raise `deadlineMs` or, on Lambda, the timeout of the function.'
  return { kind: 'deadline', error: new DeadlineExceededError(message, options) }
}

function lostLease(): Extract<HandlerEnd, { kind: 'lease-lost' }> {
  const message =
    'Another owner may have taken the event over, so this run is abandoned. The redelivery finds the outcome.'
  return { kind: 'lease-lost', error: new LeaseLostError(message) }
}

function listen(signal: AbortSignal, listener: () => void): () => void {
  signal.addEventListener('abort', listener)
  return () => signal.removeEventListener('abort', listener)
}
