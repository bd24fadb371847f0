/** A message in hand is kept from idle consumers, so one that waits for a handler should start within this time. */
const SOON_MS = 1_000
/** Weight of the newest message in the moving average. */
const NEWEST = 0.2

/** How many messages may be in hand: those that run, and those that can start soon. */
export class Prefetch {
  readonly #slots: number
  readonly #mostAhead: number
  #messageMs: number | undefined

  constructor(slots: number, mostAhead: number) {
    this.#slots = slots
    this.#mostAhead = mostAhead
  }

  /** Messages beyond the slots; none before the first message has shown how long one takes. */
  get ahead(): number {
    if (this.#messageMs === undefined) return 0
    return Math.min(this.#mostAhead, Math.floor((SOON_MS * this.#slots) / this.#messageMs))
  }

  get capacity(): number {
    return this.#slots + this.ahead
  }

  note(elapsedMs: number): void {
    const before = this.#messageMs ?? elapsedMs
    this.#messageMs = before + NEWEST * (elapsedMs - before)
  }
}
