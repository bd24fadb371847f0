/** The abort signal of one run. Made when the handler first reads it, because most handlers never do. */
export class HandlerSignal {
  #controller: AbortController | undefined
  #aborted: { readonly reason: unknown } | undefined

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted.reason)
    }
    return this.#controller.signal
  }

  /** A second call changes nothing. */
  abort(reason: unknown): void {
    this.#aborted ??= { reason }
    this.#controller?.abort(reason)
  }

  throwIfAborted(): void {
    if (this.#aborted !== undefined) this.signal.throwIfAborted()
  }
}
