/** How much a new answer counts: the last thirty or so make the share. */
const WEIGHT = 1 / 32
/** A share is high from the first, and low again below the second. */
const HIGH = { from: 0.25, to: 0.15 } as const
/** While the store knows few of many copies, one event in so many is claimed. */
const LOOK_EVERY = 16

class Share {
  #share: number
  #isHigh: boolean

  constructor(initial: 0 | 1) {
    this.#share = initial
    this.#isHigh = initial === 1
  }

  get isHigh(): boolean {
    return this.#isHigh
  }

  note(isSo: boolean): void {
    this.#share += ((isSo ? 1 : 0) - this.#share) * WEIGHT
    this.#isHigh = this.#share >= (this.#isHigh ? HIGH.to : HIGH.from)
  }
}

/**
 * Whether it pays to ask the lease store about events that are probably new (design.md §15). A claim costs about as much
 * as half an event, and saves a look at the inbox for a copy that the store knows. Every outcome says whether its event
 * was a copy, whoever knew it, so nothing is asked while few are. Whether the store knows the copies is learnt only by
 * asking: after a rewind over more days than it remembers, it knows none.
 */
export class ClaimNeed {
  readonly #copies = new Share(0)
  #known = new Share(1)
  #looks = 0

  /** Whether this event is to be claimed although it is probably new. */
  claims(): boolean {
    if (!this.#copies.isHigh) return false
    if (this.#known.isHigh) return true
    this.#looks += 1
    return this.#looks % LOOK_EVERY === 0
  }

  /** An event has ended. */
  ended(isCopy: boolean): void {
    this.#copies.note(isCopy)
    // The next storm is another one.
    if (!this.#copies.isHigh && !this.#known.isHigh) this.#known = new Share(1)
  }

  /** The store has answered a claim: with what it knows of the event, or that it is free. */
  answered(isKnown: boolean): void {
    if (this.#copies.isHigh) this.#known.note(isKnown)
  }
}
