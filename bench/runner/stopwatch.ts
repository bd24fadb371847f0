/** Times a consumer from its first delivery to its last event: joining a group and leaving it is not what is measured. */
export class Stopwatch {
  readonly #done = Promise.withResolvers<number>()
  #left: number
  #startedAt: number | undefined

  constructor(events: number) {
    this.#left = events
    // A round may fail before anybody waits for its end.
    this.#done.promise.catch(() => undefined)
  }

  /** The first call starts it. */
  start(): void {
    this.#startedAt ??= performance.now()
  }

  /** So many events more have come to their end; the last one stops it. */
  count(events = 1): void {
    this.#left -= events
    if (this.#left > 0) return
    this.#done.resolve(performance.now() - (this.#startedAt ?? Number.NaN))
  }

  fail(error: Error): void {
    this.#done.reject(error)
  }

  /** What it took, milliseconds. */
  get took(): Promise<number> {
    return this.#done.promise
  }
}
