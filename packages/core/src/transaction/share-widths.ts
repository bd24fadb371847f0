/** Few transactions at a time: as many as have this many events each, within two bounds. */
const FEW = { events: 8, least: 2, most: 4 } as const
/** Fewer events in hand say nothing about widths. */
const LEAST_IN_HAND = 5
/** Events of a block, and how many of its first ones ran beside those of the block before. */
const BLOCK = { events: 64, mixed: 16 } as const
/** The other width, this one, and both again: a machine that has other work for a moment decides little. */
const BLOCKS = 4
/** How much a comparison counts: the last eight or so make the mean. */
const WEIGHT = 1 / 8
/** Few are chosen where they are this much faster. */
const GAIN = 0.95
/** A trial ends after a block that is so much slower, and a width that is, compared with its last trial, is tried anew. */
const BAD = 1.5
/** One comparison counts for no more than this. */
const MOST_RATIO = 2
/** Events until the other width is tried again: doubles up to the last one while the trials change nothing. */
const STAY = { first: 1_024, longest: 16_384 } as const

interface Settled {
  /** Of the plan when the event was ready. */
  readonly width: number
  readonly tookMs: number
  readonly inHand: number
  /** The least that a transaction of so many events takes, ms. */
  readonly leastMs: (events: number) => number
}

/**
 * Few transactions at a time have more events in each. That is faster where processors or disks are busy, and slower where
 * transactions wait for a server far away or for something else. Nothing else tells the two apart, so it is tried out
 * where a shared transaction could end before its events would have ended alone. What is compared is the time from ready
 * to outcome per event in hand: what one more event costs.
 */
export class Widths {
  readonly #wide: number
  #isFew = false
  /** Of the blocks of a trial. Undefined: none is going on. */
  #trial: number[] | undefined
  #block: number[] = []
  #seen = 0
  /** What an event costs with few transactions to what it costs with many: the mean of the logarithms. */
  #ratio = 0
  #ratios = 0
  /** Of the width that stays, when it was chosen. */
  #chosenCost = Number.POSITIVE_INFINITY
  #stayed = 0
  #stay = 0
  #nextStay: number = STAY.first

  constructor(slots: number) {
    this.#wide = slots
  }

  width(inHand: number): number {
    return this.#isFew ? this.#fewFor(inHand) : this.#wide
  }

  #fewFor(inHand: number): number {
    const few = Math.min(FEW.most, Math.max(FEW.least, Math.round(inHand / FEW.events)))
    return Math.min(this.#wide, few)
  }

  settled({ inHand, leastMs, tookMs, width }: Settled): void {
    const few = this.#fewFor(inHand)
    // Of the time before the last change, or with nothing to choose from.
    if (width < this.#wide !== this.#isFew || inHand < LEAST_IN_HAND || few === this.#wide) return
    this.#stayed += 1
    this.#seen += 1
    if (this.#seen <= BLOCK.mixed) return
    this.#block.push(tookMs / inHand)
    if (this.#seen < BLOCK.events) return
    const cost = median(this.#block)
    this.#clear()
    if (this.#trial !== undefined) this.#try(this.#trial, cost)
    else this.#watch(cost, cost * inHand >= leastMs(Math.ceil(inHand / few)))
  }

  /** @param mayGain - Whether the few could be as fast. */
  #watch(cost: number, mayGain: boolean): void {
    if (this.#isFew && cost > this.#chosenCost * BAD) {
      this.#stay = 0
      this.#nextStay = STAY.first
      this.#ratios = 0
    }
    if (this.#stayed < this.#stay || !(this.#isFew || mayGain)) return
    this.#trial = []
    this.#change()
  }

  #try(trial: number[], cost: number): void {
    trial.push(cost)
    const [other = 0, own = Number.POSITIVE_INFINITY] = trial
    if (trial.length === BLOCKS || (trial.length === 2 && other > own * BAD)) this.#judge(trial)
    else this.#change()
  }

  /** The width that was tried is not the one of the last block. */
  #judge(trial: readonly number[]): void {
    const owns = trial.filter((_, n) => n % 2 === 1)
    for (const [n, own] of owns.entries()) this.#compare(trial[2 * n] ?? own, own)
    const isFewBetter = this.#ratio < (this.#isFew ? 0 : Math.log(GAIN))
    this.#trial = undefined
    this.#stayed = 0
    const isChanging = isFewBetter !== this.#isFew
    this.#chosenCost = Math.max(...trial.filter((_, n) => n % 2 === (isChanging ? 0 : 1)))
    this.#nextStay = isChanging ? STAY.first : Math.min(STAY.longest, this.#nextStay * 2)
    this.#stay = this.#nextStay
    if (isChanging) this.#change()
  }

  #compare(other: number, own: number): void {
    const [few, many] = this.#isFew ? [own, other] : [other, own]
    const ratio = Math.min(MOST_RATIO, Math.max(1 / MOST_RATIO, few / many))
    this.#ratios += 1
    this.#ratio += (Math.log(ratio) - this.#ratio) * Math.max(WEIGHT, 1 / this.#ratios)
  }

  #change(): void {
    this.#isFew = !this.#isFew
    this.#clear()
  }

  #clear(): void {
    this.#block = []
    this.#seen = 0
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}
