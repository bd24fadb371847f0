import { isThenable } from '../concurrency/maybe-async.ts'
import { ABORT_GRACE_MS } from '../concurrency/stop-signals.ts'
import {
  DeadlineExceededError,
  describeError,
  FatalError,
  LeaseLostError,
  type OncewardError,
  RetryableError,
  toReadableError,
} from '../model/errors.ts'
import type { Release, Runtime } from '../model/runtime.ts'

export type HandlerEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  /** `late`: the deadline has passed too, and only its timer comes after the error. */
  | { readonly kind: 'threw'; readonly error: unknown; readonly late?: DeadlineExceededError }
  /** The handler ran past its deadline. It may still run, but its transaction handle refuses. */
  | { readonly kind: 'deadline'; readonly error: DeadlineExceededError }
  | { readonly kind: 'lease-lost'; readonly error: LeaseLostError }
  /** A drain ran out of time. `ended`: the handler has stopped. */
  | { readonly kind: 'drained'; readonly ended: boolean }

/** Timers and the stores count whole milliseconds. */
const ROUNDING_MS = 1

/** The limits that all handlers of one transaction share. */
export interface HandlerBounds {
  readonly runtime: Runtime
  /** Whether somebody reads how long each handler ran. */
  readonly isTimed: boolean
  /** Milliseconds for all handlers together. */
  readonly deadlineMs: number
  /** Aborted by a drain that ran out of time. */
  readonly drain?: AbortSignal | undefined
  /** Of the lock that runs share with events that must run alone. Runs that the handler starts are part of it. */
  readonly hold: Release
  /** Makes the transaction handle refuse before the handler's signal aborts. */
  readonly revoke: (error: OncewardError) => void
}

export interface HandlerRun extends HandlerBounds {
  /** Aborted when the lease is lost. */
  readonly leaseLost?: AbortSignal | undefined
}

type Call = (aborting: AbortController, deadlineAt: Date) => unknown
export type TimedEnd = HandlerEnd & { readonly handlerMs: number | undefined }

/** Runs a handler. Resolves as soon as its end is known, at the latest at its deadline. Never rejects. */
export function runHandler(run: HandlerRun, call: Call): Promise<TimedEnd> {
  return new Promise((resolve) => {
    const limits = new HandlerLimits(run)
    limits.run(run.leaseLost, call, (end) => {
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
  readonly #bounds: HandlerBounds
  readonly #deadline: Deadline
  readonly #stopTimer: () => void
  readonly #stopListening: (() => void) | undefined
  #current: WatchedRun | undefined
  #isPast = false

  constructor(bounds: HandlerBounds) {
    const { deadlineMs, drain, runtime } = bounds
    this.#bounds = bounds
    const lateAtMs = runtime.monotonic() + deadlineMs - ROUNDING_MS
    this.#deadline = { lateAtMs, wallMs: runtime.now() + deadlineMs }
    this.#stopTimer = runtime.setTimer(() => {
      this.#isPast = true
      this.#current?.passDeadline()
    }, deadlineMs)
    this.#stopListening =
      drain === undefined ? undefined : listen(drain, () => this.#current?.drain())
  }

  /**
   * Like {@link runHandler}, until the deadline that all handlers share. Calls back once, possibly before it returns: a
   * promise for every handler would cost more than most handlers.
   */
  run(leaseLost: AbortSignal | undefined, call: Call, onEnd: (end: TimedEnd) => void): void {
    const run = new WatchedRun(this.#bounds, leaseLost, onEnd)
    // The lease was lost while the event waited for its turn. The handler must not run beside the new owner.
    if (leaseLost?.aborted === true) {
      run.loseLease()
      return
    }
    this.#current = run
    // The handler starts anyway, like a handler that starts a moment before the deadline.
    if (this.#isPast) queueMicrotask(() => run.passDeadline())
    else if (this.#bounds.drain?.aborted === true) queueMicrotask(() => run.drain())
    run.start(call, this.#deadline)
  }

  stop(): void {
    this.#stopTimer()
    this.#stopListening?.()
  }
}

interface Deadline {
  /** What the handler is told. */
  readonly wallMs: number
  /** On the monotonic clock: an error that comes later is late, although its timer comes after it. */
  readonly lateAtMs: number
}

/** A handler that runs until the first of several ends. */
class WatchedRun {
  readonly #bounds: HandlerBounds
  readonly #onEnd: (end: TimedEnd) => void
  readonly #startedAtMs: number | undefined
  readonly #aborting = new AbortController()
  readonly #stopListening: (() => void) | undefined
  #stopGrace: (() => void) | undefined
  #isOver = false
  #isDrained = false

  constructor(
    bounds: HandlerBounds,
    leaseLost: AbortSignal | undefined,
    onEnd: (end: TimedEnd) => void,
  ) {
    this.#bounds = bounds
    this.#onEnd = onEnd
    this.#startedAtMs = bounds.isTimed ? bounds.runtime.monotonic() : undefined
    this.#stopListening =
      leaseLost === undefined ? undefined : listen(leaseLost, () => this.loseLease())
  }

  start(call: Call, { lateAtMs, wallMs }: Deadline): void {
    const { hold, runtime } = this.#bounds
    let result: unknown
    try {
      result = runtime.alone.runInside(hold, () => call(this.#aborting, new Date(wallMs)))
      if (isThenable(result)) {
        Promise.resolve(result).then(
          (value) => this.#end({ kind: 'returned', value }),
          (thrown: unknown) => this.#threw(thrown, lateAtMs),
        )
        return
      }
    } catch (thrown) {
      this.#threw(thrown, lateAtMs)
      return
    }
    this.#end({ kind: 'returned', value: result })
  }

  passDeadline(): void {
    this.#cut(pastDeadline(this.#bounds))
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
    this.#stopGrace = this.#bounds.runtime.setTimer(giveUp, ABORT_GRACE_MS)
  }

  #threw(thrown: unknown, lateAtMs: number): void {
    if (this.#isDrained) {
      this.#end({ kind: 'drained', ended: true })
      return
    }
    const error = toReadableError(thrown)
    const isLate = this.#bounds.runtime.monotonic() >= lateAtMs
    const late = isLate ? { late: pastDeadline(this.#bounds, { cause: error }).error } : {}
    this.#end({ kind: 'threw', error, ...late })
  }

  #cut(how: HandlerEnd & { readonly error: OncewardError }): void {
    if (this.#isOver) return
    this.#bounds.revoke(how.error)
    this.#aborting.abort(how.error)
    this.#end(how)
  }

  #end(how: HandlerEnd): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#stopGrace?.()
    this.#stopListening?.()
    const startedAtMs = this.#startedAtMs
    const handlerMs =
      startedAtMs === undefined ? undefined : this.#bounds.runtime.monotonic() - startedAtMs
    this.#onEnd({ ...how, handlerMs })
  }
}

function pastDeadline(
  { deadlineMs }: HandlerBounds,
  options?: ErrorOptions,
): Extract<HandlerEnd, { kind: 'deadline' }> {
  const message =
    `The handler ran past its deadline of ${Math.round(deadlineMs)} ms, so this run has failed. ` +
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

/** Maximum size of a result, bytes of JSON. Larger results belong in a table of your own. */
export const RESULT_LIMIT_BYTES: number = 64 * 1024
/** Maximum depth of a result: far below where the stack of JavaScript or PostgreSQL ends, which no code can rely on. */
const RESULT_LIMIT_LEVELS = 1_000
const NOT_COMMITTED = 'its effects were not committed'

/**
 * The JSON text of what a handler returned.
 *
 * @throws {@link RetryableError} before the commit, if the value is not JSON or too large. The error is retryable
 * because returning the driver's result is a defect of the code. A new version of the code can run the event.
 */
export function toResultText(value: unknown): string {
  assertJson(value, '$', new Set())
  const text = JSON.stringify(value)
  const bytes = Buffer.byteLength(text)
  if (bytes > RESULT_LIMIT_BYTES) {
    throw notStorable(`is ${bytes} bytes of JSON, more than ${RESULT_LIMIT_BYTES}`)
  }
  return text
}

/**
 * Like {@link toResultText}, for a handler without a transaction. Its effect has happened, so the event must not run
 * again, and an operator who read that nothing was committed would replay it.
 *
 * @throws {@link FatalError}
 */
export function assertStorable(value: unknown): void {
  try {
    if (value !== undefined) toResultText(value)
  } catch (error) {
    const { message } = describeError(error)
    throw new FatalError(message.replace(NOT_COMMITTED, 'its effects may have happened'))
  }
}

function assertJson(value: unknown, path: string, above: Set<object>): void {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw notStorable(`has a number that JSON cannot store at ${path}`)
    return
  }
  if (typeof value !== 'object') throw notStorable(`has a ${typeof value} at ${path}`)
  if (above.has(value)) throw notStorable(`refers to itself at ${path}`)
  if (above.size === RESULT_LIMIT_LEVELS) {
    throw notStorable(`nests deeper than ${RESULT_LIMIT_LEVELS} levels`)
  }
  above.add(value)
  assertPlain(value, path, above)
  above.delete(value)
}

function assertPlain(value: object, path: string, above: Set<object>): void {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) assertJson(item, `${path}[${index}]`, above)
    return
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    throw notStorable(`has an object that is not plain at ${path}`)
  }
  for (const [name, item] of Object.entries(value)) {
    if (item !== undefined) assertJson(item, `${path}.${name}`, above)
  }
}

function notStorable(why: string): RetryableError {
  return new RetryableError(
    `The handler's return value ${why}, and ${NOT_COMMITTED}. Return plain JSON of at most ` +
      `${RESULT_LIMIT_BYTES} bytes, or nothing: \`async (event) => { await … }\` instead of \`async (event) => …\`.`,
  )
}
