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
import { HandlerSignal } from './handler-signal.ts'

export type HandlerEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  /** The handler ran past its deadline. It may still run, but its transaction handle refuses. */
  | { readonly kind: 'deadline'; readonly error: DeadlineExceededError }
  | { readonly kind: 'lease-lost'; readonly error: LeaseLostError }
  /** A drain ran out of time. `ended`: the handler has stopped. */
  | { readonly kind: 'drained'; readonly ended: boolean }

/** The limits that all handlers of one transaction share. */
export interface HandlerBounds {
  readonly runtime: Runtime
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

type Call = (aborting: HandlerSignal, deadlineAt: Date) => unknown
type TimedEnd = HandlerEnd & { readonly handlerMs: number }

/** Runs a handler. Returns as soon as its end is known, at the latest at its deadline. Never throws. */
export async function runHandler(run: HandlerRun, call: Call): Promise<TimedEnd> {
  const limits = startLimits(run)
  try {
    return await limits.run(run.leaseLost, call)
  } finally {
    limits.stop()
  }
}

/** Runs the handlers of one transaction, one after the other. */
export interface HandlerLimits {
  /** Like {@link runHandler}, until the deadline that all handlers share. */
  run(leaseLost: AbortSignal | undefined, call: Call): Promise<TimedEnd>
  stop(): void
}

/** A running handler, as seen by the deadline and the drain. */
interface Watcher {
  readonly onDeadline: () => void
  readonly onDrain: () => void
}

/**
 * Uses one timer and one listener for all handlers of a transaction, because one for each handler would be expensive.
 */
export function startLimits(bounds: HandlerBounds): HandlerLimits {
  const { deadlineMs, drain, runtime } = bounds
  const deadlineAtMs = runtime.now() + deadlineMs
  let current: Watcher | undefined
  let isPast = false
  const stopTimer = runtime.setTimer(() => {
    isPast = true
    current?.onDeadline()
  }, deadlineMs)
  const stopListening = drain === undefined ? undefined : listen(drain, () => current?.onDrain())
  const watch = (watcher: Watcher): void => {
    current = watcher
    // The handler starts anyway, like a handler that starts a moment before the deadline.
    if (isPast) queueMicrotask(watcher.onDeadline)
    else if (drain?.aborted === true) queueMicrotask(watcher.onDrain)
  }
  return {
    run: (leaseLost, call) => runWatched({ bounds, leaseLost, watch, deadlineAtMs }, call),
    stop: () => {
      stopTimer()
      stopListening?.()
    },
  }
}

interface WatchedRun {
  readonly bounds: HandlerBounds
  readonly leaseLost: AbortSignal | undefined
  readonly watch: (watcher: Watcher) => void
  readonly deadlineAtMs: number
}

function runWatched(
  { bounds, deadlineAtMs, leaseLost, watch }: WatchedRun,
  call: Call,
): Promise<TimedEnd> {
  const { hold, revoke, runtime } = bounds
  const startedAt = runtime.monotonic()
  const aborting = new HandlerSignal()
  const { promise, resolve } = Promise.withResolvers<TimedEnd>()
  let isOver = false
  let isDrained = false
  let stopGrace: (() => void) | undefined

  const end = (how: HandlerEnd): void => {
    if (isOver) return
    isOver = true
    stopGrace?.()
    stopListening?.()
    resolve({ ...how, handlerMs: runtime.monotonic() - startedAt })
  }
  const cut = (how: HandlerEnd & { readonly error: OncewardError }): void => {
    if (isOver) return
    revoke(how.error)
    aborting.abort(how.error)
    end(how)
  }
  const onDrain = (): void => {
    if (isOver || isDrained) return
    isDrained = true
    aborting.abort(
      new DeadlineExceededError('The consumer is shutting down. The event is redelivered later.'),
    )
    stopGrace = runtime.setTimer(() => end({ kind: 'drained', ended: false }), ABORT_GRACE_MS)
  }

  const stopListening =
    leaseLost === undefined ? undefined : listen(leaseLost, () => cut(lostLease()))
  if (leaseLost?.aborted === true) {
    // The lease was lost while the event waited for its turn. The handler must not run beside the new owner.
    cut(lostLease())
    return promise
  }
  watch({ onDeadline: () => cut(pastDeadline(bounds)), onDrain })
  invoke(
    () => runtime.alone.runInside(hold, () => call(aborting, new Date(deadlineAtMs))),
    (value) => end({ kind: 'returned', value }),
    (error) => end(isDrained ? { kind: 'drained', ended: true } : { kind: 'threw', error }),
  )
  return promise
}

function pastDeadline({ deadlineMs }: HandlerBounds): Extract<HandlerEnd, { kind: 'deadline' }> {
  const message =
    `The handler ran for more than deadlineMs = ${deadlineMs} ms and was rolled back. ` +
    'Make the handler faster or raise `deadlineMs`.'
  return { kind: 'deadline', error: new DeadlineExceededError(message) }
}

function lostLease(): Extract<HandlerEnd, { kind: 'lease-lost' }> {
  const message =
    'Another owner may have taken the event over, so this run is abandoned. The redelivery finds the outcome.'
  return { kind: 'lease-lost', error: new LeaseLostError(message) }
}

function invoke(
  call: () => unknown,
  returned: (value: unknown) => void,
  threw: (error: unknown) => void,
): void {
  const failed = (thrown: unknown): void => threw(toReadableError(thrown))
  try {
    const result = call()
    if (isThenable(result)) Promise.resolve(result).then(returned, failed)
    else returned(result)
  } catch (thrown) {
    failed(thrown)
  }
}

function listen(signal: AbortSignal, listener: () => void): () => void {
  if (signal.aborted) queueMicrotask(listener)
  else signal.addEventListener('abort', listener, { once: true })
  return () => signal.removeEventListener('abort', listener)
}

/** Maximum size of a result, bytes of JSON. Larger results belong in a table of the user's. */
export const RESULT_LIMIT_BYTES: number = 64 * 1024

/**
 * The JSON text of a handler's return value, or undefined when there is none.
 *
 * @throws {@link RetryableError} before the commit, if the value is not JSON or too large. The error is retryable
 * because returning the driver's result is a defect of the code. A new version of the code can run the event.
 */
export function toResultText(value: unknown): string | undefined {
  if (value === undefined) return undefined
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
 * again.
 *
 * @throws {@link FatalError}
 */
export function assertStorable(value: unknown): void {
  try {
    toResultText(value)
  } catch (error) {
    throw new FatalError(describeError(error).message, { cause: error })
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
    `The handler's return value ${why}, and its effects were not committed. Return plain JSON of at most ` +
      `${RESULT_LIMIT_BYTES} bytes, or nothing: \`async (event) => { await … }\` instead of \`async (event) => …\`.`,
  )
}
