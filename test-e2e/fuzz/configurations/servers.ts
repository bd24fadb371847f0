/** Starts each server at most once, when the first cell needs it. */
export class Servers implements AsyncDisposable {
  readonly #started = new Map<string, Promise<AsyncDisposable>>()

  /** The server of this name, started by `start` if nobody has. */
  of<Server extends AsyncDisposable>(name: string, start: () => Promise<Server>): Promise<Server> {
    const started = this.#started.get(name) ?? start()
    this.#started.set(name, started)
    return started as Promise<Server>
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const started = [...this.#started.values()].toReversed()
    this.#started.clear()
    // The last first: some stand before others.
    for (const server of started) await (await server)[Symbol.asyncDispose]()
  }
}
