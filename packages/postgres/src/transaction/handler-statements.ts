import { type Logger, type OncewardError, RetryableError } from '@onceward/core'
import { sqlState } from '../errors.ts'
import type { HandleGate } from './refusing-handle.ts'
import { StatementPromise, type WatchedPromise } from './statement-promise.ts'
import { statementTokens } from './statement-tokens.ts'

const IN_FAILED_TRANSACTION = '25P02'

/** One statement of a handler. */
export interface Statement {
  /** Undefined if it is not known. */
  text: string | undefined
  /** What the handler got for it. Undefined if only a library got it. */
  readonly promise: WatchedPromise | undefined
}

/** A statement that failed. */
interface Failure extends Statement {
  readonly error: unknown
  isDelivered: boolean
  readonly deliver: (error: unknown) => void
}

/** A statement that is not sent. */
export interface Refused {
  readonly error: OncewardError
  /** That has refused it. */
  readonly gate: Pick<HandleGate, 'whenReported'>
  readonly text: string | undefined
}

/** Takes the answer to a statement. */
export interface Settle<T> {
  resolve(value: T): void
  fail(error: unknown): void
}

/**
 * The statements of the handlers of one transaction. If a handler forgets to await one that fails, its run fails. An
 * unhandled rejection would end the process.
 *
 * It cannot be seen whether anybody awaits a promise that a library or a function of the user has made of ours. So an
 * error that comes while later statements run waits for them, and once the handler has ended it is not delivered.
 */
export class HandlerStatements {
  /** Of the guard. Set when the transaction is open. */
  logger: Logger | undefined
  #running = 0
  /** Counts the handlers of the transaction. */
  #handler = 0
  #failures: Failure[] | undefined
  #held: Failure[] | undefined
  /** What the next statement of a library belongs to. */
  #executing: WatchedPromise | undefined

  get isRunning(): boolean {
    return this.#running > 0
  }

  /** The promise of a statement, for the handler. */
  promise<T>(send: (settle: Settle<T>) => void, text: string | undefined): Promise<T> {
    const promise = new StatementPromise<T>(this, text)
    const settle = this.#started({ text, promise }, promise)
    try {
      send(settle)
    } catch (error) {
      this.#running -= 1
      throw error
    }
    return promise
  }

  /** The promise of a statement that is not sent. */
  refused({ error, gate, text }: Refused): Promise<never> {
    const promise = new StatementPromise<never>(this, text)
    gate.whenReported(() => this.rejected(promise, error))
    this.#reportLost(promise)
    return promise
  }

  /** As {@link refused}, for a library. */
  innerRefused({ error, gate }: Omit<Refused, 'text'>): Promise<never> {
    if (this.#executing !== undefined) this.#reportLost(this.#executing)
    return new Promise((_, reject) => gate.whenReported(() => reject(error)))
  }

  #reportLost(promise: WatchedPromise): void {
    const { logger } = this
    setImmediate(() => {
      if (!promise.isAwaited) logger?.error({ statement: shown(promise.text) }, LOST)
    })
  }

  /** The promise of a statement, for a library that makes promises of its own of it. */
  inner<T>(send: (statement: Statement) => PromiseLike<T>): Promise<T> {
    const statement: Statement = { text: undefined, promise: this.#executing }
    this.#executing = undefined
    return new Promise((resolve, reject) => {
      const settle = this.#started<T>(statement, { resolve, fail: reject })
      send(statement).then(settle.resolve, settle.fail)
    })
  }

  /** What a function of a library answers, which may send a statement with {@link inner}. */
  outer(execute: () => unknown): unknown {
    const promise = new StatementPromise<unknown>(this, undefined)
    this.#executing = promise
    let answer: unknown
    try {
      answer = execute()
    } finally {
      this.#executing = undefined
    }
    if (!(answer instanceof Promise)) return answer
    promise.follow(answer)
    return promise
  }

  /** A promise of the handler is rejected. */
  rejected(promise: WatchedPromise, error: unknown): void {
    const isKnown = this.#failures?.some((each) => each.error === error) === true
    if (!isKnown) {
      this.#add({ text: promise.text, promise, error, isDelivered: true, deliver: () => undefined })
    }
    promise.reject(error)
  }

  /** A statement runs until the answer is called, which counts once. */
  #started<T>(statement: Statement, to: Settle<T>): Settle<T> {
    const handler = this.#handler
    let isRunning = true
    this.#running += 1
    const isFirst = (): boolean => {
      if (!isRunning) return false
      isRunning = false
      this.#running -= 1
      return true
    }
    return {
      resolve: (value) => {
        if (!isFirst()) return
        to.resolve(value)
        if (this.#held !== undefined) this.#deliverNext()
      },
      fail: (error) => {
        if (!isFirst()) return
        const { text, promise } = statement
        const deliver = (delivered: unknown): void => to.fail(delivered)
        this.#failed({ text, promise, error, isDelivered: false, deliver }, handler)
      },
    }
  }

  #failed(failure: Failure, handler: number): void {
    this.#add(failure)
    if (handler === this.#handler) {
      if (this.#running === 0 && this.#held === undefined) {
        deliver(failure, failure.error)
        return
      }
      this.#held ??= []
      this.#held.push(failure)
    }
    this.#deliverNext()
  }

  #add(failure: Failure): void {
    this.#failures ??= []
    this.#failures.push(failure)
  }

  /**
   * The last one first: a handler that awaits only this one ends now. If it awaits earlier ones too, they follow. An error
   * that only says that the transaction has failed is replaced by the one that made it fail.
   */
  #deliverNext(): void {
    if (this.#running > 0) return
    const last = this.#held?.pop()
    if (last === undefined) {
      this.#held = undefined
      return
    }
    const first = this.#held?.[0]
    const isFollowing = first !== undefined && sqlState(last.error) === IN_FAILED_TRANSACTION
    deliver(last, isFollowing ? first.error : last.error)
    setImmediate(() => this.#deliverNext())
  }

  /**
   * A handler has returned or thrown. What it left running is awaited by nobody.
   *
   * @param thrown - Undefined if it has returned.
   * @returns Why its run has failed: a statement that it did not await has failed.
   */
  ended(thrown: unknown): OncewardError | undefined {
    this.#handler += 1
    this.#held = undefined
    return this.mistake(thrown)
  }

  /** As {@link ended}, with what has failed since. */
  mistake(thrown: unknown): OncewardError | undefined {
    const forgotten = this.#failures?.find(
      ({ promise, isDelivered }) =>
        promise?.isAwaited === false || (thrown === undefined && !isDelivered),
    )
    if (forgotten === undefined) return undefined
    const { error, text } = forgotten
    if (thrown !== undefined && !comesOf(thrown, error)) return undefined
    return new RetryableError(
      `The run failed because a statement was not awaited: ${shown(text)}. Await every statement in the handler.`,
      { cause: error },
    )
  }
}

const LOST =
  'a statement was refused and nobody awaited it, so its effect is missing: await every statement in the handler'

function deliver(failure: Failure, error: unknown): void {
  failure.isDelivered = true
  failure.deliver(error)
}

const MOST_CAUSES = 5

/** Whether what a handler has thrown is the error of a statement, or a consequence of it. */
function comesOf(thrown: unknown, error: unknown): boolean {
  if (sqlState(thrown) === IN_FAILED_TRANSACTION) return true
  let each = thrown
  for (let depth = 0; depth < MOST_CAUSES; depth += 1) {
    if (each === error) return true
    each = (each as { readonly cause?: unknown } | null | undefined)?.cause
  }
  return false
}

/** Most words of a statement in an error. */
const MOST_WORDS = 5

/** The first words of a statement. Values are never shown: they may be secret. */
export function shown(text: string | undefined): string {
  if (text === undefined) return 'a query'
  const words: string[] = []
  for (const token of statementTokens(text, false)) {
    if (token === '(' || token === ';' || words.length === MOST_WORDS) break
    words.push(token)
  }
  return `${words.join(' ').replaceAll(' . ', '.').replaceAll('"', '')} …`
}
