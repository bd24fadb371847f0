/** How much a new outcome counts: the last thirty or so make the share. */
const WEIGHT = 1 / 32
/** Shares of copies from which on all events are claimed, and below which only those that may be copies. */
const PAYS = { from: 0.25, to: 0.15 } as const

/**
 * Whether it pays to ask the lease store about every event (design.md §15). A claim costs about as much as half an event,
 * and saves a look at the inbox for a copy. Every outcome counts, whoever knew it, so nothing is asked only to find out.
 */
export class ClaimNeed {
  #share = 0
  #isHigh = false

  /** Whether events that are probably new are to be claimed too. */
  get isHigh(): boolean {
    return this.#isHigh
  }

  note(isCopy: boolean): void {
    this.#share += ((isCopy ? 1 : 0) - this.#share) * WEIGHT
    this.#isHigh = this.#share >= (this.#isHigh ? PAYS.to : PAYS.from)
  }
}
