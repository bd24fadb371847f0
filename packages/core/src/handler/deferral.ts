import type { EventId } from '../model/brands.ts'
import { RetryableError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { deferredOutcome, failureOutcome, retryDelayMs } from '../settlement/retry-rule.ts'

/** Longest wait that a handler may ask for, ms: the event must come back within its dedup window. */
const LONGEST_MS = 86_400_000

const SIGNAL =
  'The handler has deferred its event, so this run is rolled back. Let this error leave the handler.'
const LATE =
  'The run of the handler is over, so its event cannot be deferred any more. Await what calls `defer`.'

/** What a handler calls to come back later: `context.defer` and `context.pauseFor`. One for each run. */
export class Deferring {
  /** Milliseconds. Set once the handler has asked, also if it catches what is thrown. */
  delayMs: number | undefined
  readonly #options: ResolvedOptions
  readonly #isOver: () => boolean

  constructor(options: ResolvedOptions, isOver: () => boolean) {
    this.#options = options
    this.#isOver = isOver
  }

  defer(ms: unknown): never {
    if (this.#isOver()) throw new RetryableError(LATE)
    this.delayMs = this.#delayMs(ms)
    throw new RetryableError(SIGNAL, { afterMs: this.delayMs })
  }

  pauseFor(ms: unknown): never {
    if (this.#isOver()) throw new RetryableError(LATE)
    const forMs = this.#delayMs(ms)
    this.#options.valve.pause({ source: 'handler', why: 'it called pauseFor', forMs })
    return this.defer(forMs)
  }

  /** A `Retry-After` that is missing gives NaN: the ordinary back-off then. */
  #delayMs(ms: unknown): number {
    if (typeof ms === 'number' && ms >= 0) return Math.min(LONGEST_MS, ms)
    return retryDelayMs(this.#options, 1, undefined)
  }
}

/** Most events whose deferrals a process without an inbox counts. */
const MOST_COUNTED = 10_000

/**
 * Counts deferrals where nothing durable does: with leases alone in each process, and without a key by the deliveries of
 * the broker.
 */
export class LocalDefers {
  readonly #counts = new Map<EventId, number>()

  /** The outcome of a run whose handler asked to come back later. */
  outcomeOf(
    options: ResolvedOptions,
    { event: { delivery, id, key } }: InFlightEvent,
    { attempt, delayMs }: { readonly attempt: number; readonly delayMs: number },
  ): Outcome {
    const { maxDefers: most } = options
    const before = key === '' ? (delivery.deliveryCount ?? 1) - 1 : (this.#counts.get(id) ?? 0)
    if (before >= most) return failureOutcome(options, attempt, deferredTooOften(most))
    this.#counts.delete(id)
    if (key !== '') this.#counts.set(id, before + 1)
    const [oldest] = this.#counts.keys()
    if (this.#counts.size > MOST_COUNTED && oldest !== undefined) this.#counts.delete(oldest)
    return deferredOutcome(attempt, delayMs)
  }
}

/** The error of a deferral that counts as a failed attempt. */
export const deferredTooOften = (most: number): RetryableError =>
  new RetryableError(
    `The handler has deferred the event ${most} times (\`maxDefers\`), so each further deferral counts as a failed attempt.`,
  )
