import { type Breaker, createBreaker } from '../concurrency/breaker.ts'
import { createSemaphore, type Semaphore } from '../concurrency/semaphore.ts'
import { answerWithin, CallTimeoutError, LATE } from '../concurrency/timeout.ts'
import type { DeadLetter, Publish } from '../model/dead-letter.ts'
import { describeError, isError } from '../model/errors.ts'
import type { Release, Runtime } from '../model/runtime.ts'

/** Maximum time until the broker confirms a dead letter, ms. */
export const PUBLISH_BUDGET_MS = 10_000
/** Calls of one dead-letter place at the same time. */
const MOST_CALLS = 8
/** If no call of a place ends for so long, ms, new calls no longer wait for one of them to end. */
const SLOT_WAIT_MS = 1_000

export type CallEnd =
  | { readonly kind: 'confirmed' }
  | { readonly kind: 'failed'; readonly error: Error }
  /** The place failed before and is not asked yet. */
  | { readonly kind: 'not-called'; readonly error: Error }
  /** The call has no answer yet. `answer` resolves with true if the broker confirms it after all. */
  | { readonly kind: 'late'; readonly error: Error; readonly answer: Promise<boolean> }

/**
 * The calls of one dead-letter place: a bound on calls in flight, a time limit and a circuit breaker. They are its own:
 * a place that does not answer takes nothing from the handlers, from the store or from another place.
 */
export class PlaceCalls {
  readonly #publish: Publish
  readonly #runtime: Runtime
  readonly #slots: Semaphore = createSemaphore(MOST_CALLS)
  readonly #breaker: Breaker
  #lastEndMs = Number.NEGATIVE_INFINITY

  constructor(publish: Publish, runtime: Runtime) {
    this.#publish = publish
    this.#runtime = runtime
    this.#breaker = createBreaker(runtime)
  }

  /** Takes a slot for one call. Undefined if the calls in flight do not end. */
  async enter(): Promise<Release | undefined> {
    const limit = { runtime: this.#runtime, ms: SLOT_WAIT_MS }
    const untilMs = this.#runtime.monotonic() + PUBLISH_BUDGET_MS
    for (;;) {
      const release = await this.#slots.acquire({ limit })
      if (release !== undefined) return release
      const nowMs = this.#runtime.monotonic()
      if (nowMs >= untilMs || nowMs - this.#lastEndMs >= SLOT_WAIT_MS) return undefined
    }
  }

  /** Whether the last call failed, or got no answer. */
  get isDown(): boolean {
    return this.#breaker.state() !== undefined
  }

  /** Why the place is down, as far as it is known. */
  get error(): Error {
    const error = this.#breaker.state()?.error
    return toError(error ?? 'The dead-letter place does not answer.')
  }

  /** Never rejects, whatever the publisher does. */
  async call(letter: DeadLetter): Promise<CallEnd> {
    if (this.#breaker.admit() !== 'go') return { kind: 'not-called', error: this.error }
    const calling = this.#called(letter)
    try {
      const answer = await answerWithin(this.#runtime, calling, PUBLISH_BUDGET_MS)
      if (answer !== LATE) {
        this.#breaker.succeeded()
        return { kind: 'confirmed' }
      }
      const error = new CallTimeoutError('the dead-letter place', PUBLISH_BUDGET_MS)
      this.#breaker.failed(error)
      return { kind: 'late', error, answer: this.#lateAnswer(calling) }
    } catch (thrown) {
      const error = toError(thrown)
      this.#breaker.failed(error)
      return { kind: 'failed', error }
    } finally {
      this.#lastEndMs = this.#runtime.monotonic()
    }
  }

  /** Async, so that a publisher that throws instead of returning a promise fails like any other. */
  async #called(letter: DeadLetter): Promise<void> {
    await this.#publish(letter)
  }

  #lateAnswer(calling: Promise<void>): Promise<boolean> {
    return calling.then(
      () => {
        this.#breaker.succeeded()
        return true
      },
      () => false,
    )
  }
}

function toError(thrown: unknown): Error {
  return isError(thrown) ? thrown : new Error(describeError(thrown).message)
}
