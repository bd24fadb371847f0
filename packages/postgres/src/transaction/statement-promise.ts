/** A {@link StatementPromise} of any value. */
export interface WatchedPromise {
  /** Of the statement. Undefined if it is not known. */
  readonly text: string | undefined
  /** Whether anybody waits for the promise, or for what was made of it. */
  readonly isAwaited: boolean
  reject(error: unknown): void
}

function throwTraced(error: unknown): never {
  if (error instanceof Error && Object.isExtensible(error)) {
    Error.captureStackTrace(error, throwTraced)
  }
  throw error
}

/** Where the rejections go. */
interface Rejections {
  rejected(promise: WatchedPromise, error: unknown): void
}

/**
 * The promise of one statement. It knows whether anybody waits for it, and Node never takes its rejection for unhandled.
 * `await` calls `then`, because the class is not that of the language.
 */
export class StatementPromise<T> extends Promise<T> implements WatchedPromise {
  readonly text: string | undefined
  readonly #statements: Rejections
  readonly #resolve: (value: T) => void
  readonly #reject: (error: unknown) => void
  #isHandled = false
  #derived: WatchedPromise | undefined

  /** Of the promises that the language makes of one. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  constructor(statements: Rejections, text: string | undefined) {
    let settle: readonly [(value: T) => void, (error: unknown) => void] | undefined
    super((resolve, reject) => {
      settle = [resolve, reject]
    })
    const [resolve, reject] = settle as NonNullable<typeof settle>
    this.text = text
    this.#statements = statements
    this.#resolve = resolve
    this.#reject = reject
  }

  get isAwaited(): boolean {
    return this.#isHandled || this.#derived?.isAwaited === true
  }

  resolve(value: T): void {
    this.#resolve(value)
  }

  /**
   * The statement has failed. As in the promises of pg, the stack of its error then says who awaits it: V8 finds that by
   * the promises that wait for the one that is rejected, which must be one of the language.
   */
  fail(error: unknown): void {
    this.#takeAsHandled()
    const traced: Promise<never> = Promise.reject(error).catch(throwTraced)
    traced.then(this.#resolve, this.#reject)
  }

  reject(error: unknown): void {
    this.#takeAsHandled()
    this.#reject(error)
  }

  /** V8 follows a promise only if one alone waits for it. */
  #takeAsHandled(): void {
    if (!this.#isHandled && this.#derived === undefined) super.then(undefined, () => undefined)
  }

  follow(made: Promise<T>): void {
    made.then(
      (value) => this.resolve(value),
      (error: unknown) => this.#statements.rejected(this, error),
    )
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has it, and this one must notice the call.
  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const made = super.then(onFulfilled, onRejected)
    if (typeof onRejected !== 'function') return this.#derive(made)
    this.#isHandled = true
    return made
  }

  override finally(onFinally?: (() => void) | null): Promise<T> {
    return this.#derive(super.then().finally(onFinally))
  }

  /** What is made of a promise is rejected with it, and must be awaited in its place. */
  #derive<U>(made: Promise<U>): Promise<U> {
    const derived = new StatementPromise<U>(this.#statements, this.text)
    this.#derived = derived
    derived.follow(made)
    return derived
  }
}
