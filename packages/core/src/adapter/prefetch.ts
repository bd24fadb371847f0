/** A message in hand is kept from idle consumers, so one that waits for a handler should start within this time. */
const SOON_MS = 1_000
/** No message takes less; a coarse clock may say 0. */
const LEAST_MS = 0.01
/** Weight of the newest message in the moving average. */
const NEWEST = 0.2

export interface PrefetchOptions {
  /** Messages that run at the same time. */
  readonly slots: number
  /** Most messages beyond the slots. */
  readonly mostAhead: number
  /**
   * Messages that one receive should bring, once receives are reported. A message that waits behind half of the slots
   * takes half as long again, and receives of single messages would cost a request each. Default: half of the slots.
   */
  readonly chunk?: number | undefined
}

/** How many messages may be in hand: those that run, and those that can start soon. */
export class Prefetch {
  readonly #slots: number
  readonly #mostAhead: number
  readonly #chunk: number
  #messageMs: number | undefined
  #receiveMs: number | undefined

  constructor({ slots, mostAhead, chunk = Math.ceil(slots / 2) }: PrefetchOptions) {
    this.#slots = slots
    this.#mostAhead = mostAhead
    this.#chunk = chunk
  }

  /** Messages beyond the slots; none before the first message has shown how long one takes. */
  get ahead(): number {
    if (this.#messageMs === undefined) return 0
    const soon = Math.floor((SOON_MS * this.#slots) / this.#messageMs)
    return Math.min(this.#mostAhead, soon, this.#needed(this.#messageMs))
  }

  get capacity(): number {
    return this.#slots + this.ahead
  }

  /** Messages that one receive should bring. */
  get worthwhile(): number {
    return Math.max(
      1,
      this.#receiveMs === undefined ? this.ahead : Math.min(this.#chunk, this.ahead),
    )
  }

  /** A message took this long, from its start to its outcome. */
  note(elapsedMs: number): void {
    this.#messageMs = averageOf(this.#messageMs, elapsedMs)
  }

  /** The broker answered a receive after this time although messages were there. */
  noteReceive(elapsedMs: number): void {
    this.#receiveMs = averageOf(this.#receiveMs, elapsedMs)
  }

  /** Messages that keep the slots busy until the next receive is answered, and that receive's own. */
  #needed(messageMs: number): number {
    if (this.#receiveMs === undefined) return this.#mostAhead
    return this.#chunk + Math.ceil((this.#slots * this.#receiveMs) / Math.max(messageMs, LEAST_MS))
  }
}

const averageOf = (before: number | undefined, newest: number): number =>
  before === undefined ? newest : before + NEWEST * (newest - before)
