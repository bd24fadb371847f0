import type { SharePlan } from '../model/runtime.ts'
import { Widths } from './share-widths.ts'

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
/** How much a new event counts for the share of events that fail. */
const FAILURE_WEIGHT = 1 / 32
/** Of the shared transactions, so many may fail: their other events run again. */
const FAILED_TRANSACTIONS = 1 / 4
/** The first time apart after trouble, and the longest one, ms. */
const APART_MS = { first: 250, longest: 60_000 } as const
/** Shared transactions without trouble that halve the next time apart. */
const CALM_RUNS = 32
/** What was shortest counts a little less with each transaction: the server may move, and the handler may change. */
const FORGETTING = 1.02

/**
 * Decides how the events of one consumer share transactions (design.md §15). It reads no clock and draws nothing: times
 * and outcomes go in, a plan comes out.
 *
 * - Events share while a handler takes less time than the claim and the commit around it, and only as many as take about
 *   twenty milliseconds.
 * - The more events fail, the fewer share a transaction: of the shared ones, about one in four may fail.
 * - What a transaction per event would have kept from the neighbours (a deadlock, a held row, a handler that hangs) sends
 *   the consumer back to a transaction per event. The time apart doubles with each such trouble, and halves while shared
 *   transactions are committed.
 * - With no more events in hand than there are slots, each has its own transaction at once, unless few transactions at a
 *   time were found to be faster: see {@link Widths}.
 */
export class SharePolicy {
  readonly #widths: Widths
  readonly #handlerMs = new Time()
  readonly #aroundMs = new Time()
  #isCheap = false
  /** Share of events that fail. */
  #failing = 0
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

  /** @param inHand - Events that are ready or running. */
  plan(nowMs: number, inHand: number): SharePlan {
    if (this.#given !== undefined) return this.#given()
    const width = this.#widths.width(inHand)
    if (!this.#isCheap || nowMs < this.#apartUntilMs) return { size: 1, width }
    return { size: this.#size, width }
  }

  get #size(): number {
    const inTime = HANDLERS_MS / Math.max(this.#handlerMs.mean, HANDLERS_MS / MOST_EVENTS)
    const unfailing =
      FAILED_TRANSACTIONS / Math.max(this.#failing, FAILED_TRANSACTIONS / MOST_EVENTS)
    return Math.max(1, Math.floor(Math.min(inTime, unfailing)))
  }

  committed({ aroundMs, events, handlersMs }: CommittedRun): void {
    this.#handlerMs.add(handlersMs / events)
    this.#aroundMs.add(aroundMs)
    this.#failing *= (1 - FAILURE_WEIGHT) ** events
    const { mean, count } = this.#handlerMs
    // Twice as long before it ends what is going on: both times are noisy.
    const mostMs = this.#isCheap ? 2 * this.#aroundMs.mean : this.#aroundMs.mean
    this.#isCheap = count >= LEAST_RUNS && mean <= LONGEST_HANDLER_MS && mean <= mostMs
    if (events > 1) this.#calm()
  }

  #calm(): void {
    this.#calmRuns += 1
    if (this.#calmRuns % CALM_RUNS !== 0) return
    this.#apartMs = Math.max(APART_MS.first, this.#apartMs / 2)
  }

  /**
   * A handler failed.
   *
   * @param events - In its transaction.
   */
  failed(events: number, nowMs: number): void {
    this.#failing += (1 - this.#failing) * FAILURE_WEIGHT
    // Where events fail beside others only, their share falls as soon as they are alone.
    if (events > 1 && this.#size === 1) this.troubled(events, nowMs)
  }

  /** @param events - In the transaction that met trouble. One that meets it alone makes others wait for calmer times. */
  troubled(events: number, nowMs: number): void {
    const isApart = nowMs < this.#apartUntilMs
    this.#calmRuns = 0
    this.#apartUntilMs = Math.max(this.#apartUntilMs, nowMs + this.#apartMs)
    // Transactions that were open at the first trouble fail of the same cause.
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
    const most = this.#size
    const leastMs = (events: number): number =>
      this.#aroundMs.least + Math.min(events, most) * this.#handlerMs.least
    this.#widths.settled({ width: plan.width, tookMs, inHand, leastMs })
  }
}

/** What something takes, ms: the mean of the last times, and the least of them. */
class Time {
  mean = 0
  least = Number.POSITIVE_INFINITY
  count = 0

  add(tookMs: number): void {
    this.count += 1
    this.mean += (tookMs - this.mean) * Math.max(WEIGHT, 1 / this.count)
    this.least = Math.min(tookMs, this.least * FORGETTING)
  }
}
