/** Times a consumer from its first delivery to its last event, without joining and leaving the group. */
export class Stopwatch {
  readonly #done = Promise.withResolvers<number>()
  #left: number
  #startedAt: number | undefined

  constructor(events: number) {
    this.#left = events
    // A round may fail before its end is awaited.
    this.#done.promise.catch(() => undefined)
  }

  /** The first call starts it. */
  start(): void {
    this.#startedAt ??= performance.now()
  }

  /** Counts finished events. The last one stops the watch. */
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
