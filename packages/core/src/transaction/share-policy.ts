import type { SharePlan } from '../model/runtime.ts'

/** A transaction that was committed. */
export interface CommittedRun {
  readonly events: number
  /** Milliseconds of all its handlers together. */
  readonly handlersMs: number
  /** Milliseconds of its claim and its commit. */
  readonly aroundMs: number
}

/** Most events in one transaction: the bound of `transaction: 'batch'`. */
const MOST_EVENTS = 100
/** The handlers of one transaction together take about this long, ms. A neighbour that fails costs no more than that. */
const HANDLERS_MS = 20
/** Handlers that take longer run side by side, ms. */
const LONGEST_HANDLER_MS = 4
/** Transactions after which the times are known. */
const LEAST_RUNS = 16
/** How much a new time counts: the last thirty or so make the mean. */
const WEIGHT = 1 / 16
/** The first time apart after trouble, and the longest one, ms. */
const APART_MS = { first: 250, longest: 60_000 } as const
/** Shared transactions without trouble that halve the next time apart. */
const CALM_RUNS = 32

/**
 * Decides how the events of one consumer share transactions (design.md §15). It reads no clock and draws nothing: times
 * and outcomes go in, a plan comes out.
 *
 * - Events share while a handler takes less time than the claim and the commit around it. Then a transaction for many
 *   ends no later than the last of their own transactions would have.
 * - Trouble (a handler that fails or hangs, a deadlock, a held row) sends the consumer back to a transaction per event. The
 *   time apart doubles with each trouble of a shared transaction, and halves while shared transactions are committed.
 * - Whether few transactions at a time are faster than many is tried out: see {@link Widths}.
 */
export class SharePolicy {
  readonly #widths: Widths
  #runs = 0
  #handlerMs = 0
  #aroundMs = 0
  #isCheap = false
  #apartMs: number = APART_MS.first
  #apartUntilMs = Number.NEGATIVE_INFINITY
  #calmRuns = 0

  readonly #given: (() => SharePlan) | undefined

  /**
   * @param slots - Most transactions at the same time.
   * @param given - In place of what is learned.
   */
  constructor(slots: number, given?: () => SharePlan) {
    this.#widths = new Widths(slots)
    this.#given = given
  }

  plan(nowMs: number): SharePlan {
    if (this.#given !== undefined) return this.#given()
    const width = this.#widths.width
    if (!this.#isCheap || nowMs < this.#apartUntilMs) return { size: 1, width }
    const size = Math.floor(HANDLERS_MS / Math.max(this.#handlerMs, HANDLERS_MS / MOST_EVENTS))
    return { size: Math.max(1, size), width }
  }

  committed({ aroundMs, events, handlersMs }: CommittedRun): void {
    this.#runs += 1
    const weight = Math.max(WEIGHT, 1 / this.#runs)
    this.#handlerMs += (handlersMs / events - this.#handlerMs) * weight
    this.#aroundMs += (aroundMs - this.#aroundMs) * weight
    // Twice as long before it ends what is going on: both times are noisy.
    const mostMs = this.#isCheap ? 2 * this.#aroundMs : this.#aroundMs
    this.#isCheap =
      this.#runs >= LEAST_RUNS && this.#handlerMs <= LONGEST_HANDLER_MS && this.#handlerMs <= mostMs
    if (events > 1) this.#calm()
  }

  #calm(): void {
    this.#calmRuns += 1
    if (this.#calmRuns % CALM_RUNS !== 0) return
    this.#apartMs = Math.max(APART_MS.first, this.#apartMs / 2)
  }

  /** @param events - In the transaction that failed. An event that fails alone makes others wait for calmer times. */
  troubled(events: number, nowMs: number): void {
    const isApart = nowMs < this.#apartUntilMs
    this.#calmRuns = 0
    this.#apartUntilMs = Math.max(this.#apartUntilMs, nowMs + this.#apartMs)
    // Transactions that were open at the first failure fail of the same cause.
    if (events > 1 && !isApart) this.#apartMs = Math.min(APART_MS.longest, this.#apartMs * 2)
  }

  /**
   * Notes how long an event took from when it was ready to its outcome.
   *
   * @param plan - When it was ready.
   * @param inHand - Events that were ready or running then.
   */
  settled(plan: SharePlan, tookMs: number, inHand: number): void {
    if (plan.size === 1) return
    // Longer handlers gain little from company, and lose more to those that run before them.
    if (this.#handlerMs > this.#aroundMs) this.#widths.widen()
    else {
      const mayTry = 2 * this.#handlerMs <= this.#aroundMs
      this.#widths.settled({ width: plan.width, tookMs, inHand, mayTry })
    }
  }
}

/** Fewer events in hand say nothing about widths. */
const LEAST_IN_HAND = 4
/** Events of a block of a trial, and how many of its first ones ran beside those of the block before. */
const BLOCK = { events: 20, mixed: 4 } as const
/** The other width, this one, and both again: a machine that has other work for a moment does not decide. */
const BLOCKS = 4
/** The narrow width must be this much faster. */
const GAIN = 0.9
/** A trial ends after a block that is so much slower, and a width that is, compared with its last trial, is tried anew. */
const BAD = 1.5
/** Events until the other width is tried again: doubles up to the last one while the trials change nothing. */
const STAY = { start: 16, first: 256, longest: 16_384 } as const
/** Events by which a width that stays is watched. */
const WATCHED = 64

interface Settled {
  /** Of the plan when the event was ready. */
  readonly width: number
  readonly tookMs: number
  readonly inHand: number
  /** The narrow width may be tried. */
  readonly mayTry: boolean
}

/**
 * Few transactions at a time have more events in each. That is faster where processors are busy, and slower where
 * transactions wait for a server far away. Nothing else tells the two apart, so it is tried out now and then. What is
 * compared is the time from ready to outcome per event in hand: what one more event costs.
 */
class Widths {
  readonly #wide: number
  readonly #narrow: number
  #isNarrow = false
  /** Means of the blocks of a trial. Undefined: none is going on. */
  #trial: number[] | undefined
  #sum = 0
  #count = 0
  /** Of the width that stays: its mean when it was chosen, and the events since then. */
  #chosenMean: number | undefined
  #stayed = 0
  #stay: number = STAY.start
  #nextStay: number = STAY.first

  constructor(slots: number) {
    this.#wide = slots
    this.#narrow = Math.min(slots, Math.max(2, Math.round(slots / 8)))
  }

  get width(): number {
    return this.#isNarrow ? this.#narrow : this.#wide
  }

  widen(): void {
    if (this.#isNarrow) this.#change()
    this.#trial = undefined
    this.#stayed = 0
  }

  settled(settled: Settled): void {
    const { inHand, mayTry, tookMs, width } = settled
    // Of the time before the last change, or with nothing to choose from.
    if (width !== this.width || inHand < LEAST_IN_HAND || this.#narrow === this.#wide) return
    this.#count += 1
    if (this.#trial === undefined) this.#watch(tookMs / inHand, mayTry)
    else this.#try(this.#trial, tookMs / inHand)
  }

  #watch(costMs: number, mayTry: boolean): void {
    this.#sum += costMs
    this.#stayed += 1
    let isBad = false
    if (this.#count === WATCHED) {
      isBad = this.#sum / this.#count > (this.#chosenMean ?? Number.POSITIVE_INFINITY) * BAD
      this.#clear()
    }
    if (isBad && this.#isNarrow) this.#nextStay = STAY.first
    if (this.#stayed < this.#stay && !(isBad && this.#isNarrow)) return
    if (!mayTry && !this.#isNarrow) return
    this.#trial = []
    this.#change()
  }

  #try(trial: number[], costMs: number): void {
    if (this.#count > BLOCK.mixed) this.#sum += costMs
    if (this.#count < BLOCK.events) return
    trial.push(this.#sum / (BLOCK.events - BLOCK.mixed))
    const [other = 0, own = Number.POSITIVE_INFINITY] = trial
    if (trial.length === BLOCKS || (trial.length === 2 && other > own * BAD)) this.#judge(trial)
    else this.#change()
  }

  /** The width that was tried is not the one of the last block. */
  #judge(trial: readonly number[]): void {
    const [other1 = 0, own1 = 0, other2 = other1, own2 = own1] = trial
    const gain = this.#isNarrow ? 1 : GAIN
    const isBetter =
      trial.length === BLOCKS &&
      other1 < own1 &&
      other2 < own2 &&
      other1 + other2 < (own1 + own2) * gain
    this.#trial = undefined
    this.#stayed = 0
    this.#chosenMean = isBetter ? (other1 + other2) / 2 : (own1 + own2) / 2
    this.#nextStay = isBetter ? STAY.first : Math.min(STAY.longest, this.#nextStay * 2)
    this.#stay = this.#nextStay
    if (isBetter) this.#change()
    else this.#clear()
  }

  #change(): void {
    this.#isNarrow = !this.#isNarrow
    this.#clear()
  }

  #clear(): void {
    this.#sum = 0
    this.#count = 0
  }
}
