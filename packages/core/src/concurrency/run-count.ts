/** Counts what runs, so that a shutdown can wait for its end. A set of promises would cost each run a promise more. */
export class RunCount {
  #running = 0
  #idle: PromiseWithResolvers<void> | undefined

  get running(): number {
    return this.#running
  }

  start(): void {
    this.#running += 1
  }

  /** Once for each start. */
  end(): void {
    this.#running -= 1
    if (this.#running > 0) return
    this.#idle?.resolve()
    this.#idle = undefined
  }

  /** Resolves when nothing runs. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    this.#idle ??= Promise.withResolvers<void>()
    return this.#idle.promise
  }
}
