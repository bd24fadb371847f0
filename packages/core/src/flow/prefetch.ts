/** A received message is not available to idle consumers, so one that waits for a handler should start within this time. */
const SOON_MS = 1_000
/** No message takes less; a coarse clock may say 0. */
const LEAST_MS = 0.01
/** Weight of the newest message in the moving average. */
const NEWEST = 0.2

export interface PullPrefetchOptions {
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

/** For a broker that is asked for messages: how many may be unsettled, those that run and those that can start soon. */
export class PullPrefetch {
  readonly #slots: number
  readonly #mostAhead: number
  readonly #chunk: number
  #messageMs: number | undefined
  #receiveMs: number | undefined

  constructor({ slots, mostAhead, chunk = Math.ceil(slots / 2) }: PullPrefetchOptions) {
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

/** A slot that is idle for a round trip to the broker after so long a message loses about a hundredth of its time. */
export const QUICK_MS = 100
/** A pace around one border would begin and end reserves all the time. */
const SLOW_MS = 200
/** A reserve ends when it was not needed for this time: beginning and ending one costs requests. */
const REST_MS = 1_000

export interface PushPrefetchOptions {
  /** Messages that run at the same time. */
  readonly slots: number
  /** Messages that one reserve brings. */
  readonly size: number
  /** Messages that may be unsettled, all reserves included. */
  readonly most: number
}

/** Held messages, which occupy the prefetch of their consumer, but no slot. */
export interface WithoutSlot {
  /** They wait for a time, or for the broker. */
  readonly waiting: number
  /** They wait for an earlier message of their order. */
  readonly blocked: number
}

/**
 * For a broker that pushes messages to consumers whose prefetch is fixed: which consumers there should be.
 *
 * The first consumer brings as many messages as there are slots, and stays. A slot whose next message is still on its
 * way is idle, so quick messages get a reserve, which is one more consumer. Behind slow messages a reserve would only
 * wait, and be kept from idle neighbours. More reserves make up for held messages, which need no slot.
 */
export class PushPrefetch {
  readonly #options: PushPrefetchOptions
  #messageMs: number | undefined
  #isQuick = false
  #count = 0
  #neededAtMs = 0

  constructor(options: PushPrefetchOptions) {
    this.#options = options
  }

  /** A message took this long, from its start to its outcome. */
  note(elapsedMs: number): void {
    this.#messageMs = averageOf(this.#messageMs, elapsedMs)
    if (this.#messageMs < QUICK_MS) this.#isQuick = true
    else if (this.#messageMs > SLOW_MS) this.#isQuick = false
  }

  /** The prefetch of each consumer that there should be now. */
  prefetches({ waiting, blocked }: WithoutSlot, nowMs: number): readonly number[] {
    const { slots, size, most } = this.#options
    const needed = waiting + (this.#isQuick ? 1 + blocked : 0)
    const count = Math.min(Math.ceil(needed / size), Math.floor((most - slots) / size))
    const isOver = nowMs - this.#neededAtMs >= REST_MS
    if (count >= this.#count || isOver) {
      this.#count = count
      this.#neededAtMs = nowMs
    }
    return [slots, ...new Array<number>(this.#count).fill(size)]
  }
}

const averageOf = (before: number | undefined, newest: number): number =>
  before === undefined ? newest : before + NEWEST * (newest - before)
