import type { StopSignals } from '../concurrency/stop-signals.ts'
import { track } from '../concurrency/timeout.ts'
import type { DueEvent } from '../model/inbox.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { type Background, POLL_LIMIT, runDue, takeDue } from './parked.ts'

/** Calls `task`, and logs an error. */
export type Guarded = <Answer>(task: () => Promise<Answer>) => Promise<Answer | undefined>

interface PollerParts {
  readonly background: Background
  readonly signals: StopSignals
  readonly guarded: Guarded
  /** Asks for the next poll. */
  readonly wake: () => void
  /** Asks for a poll after `delayMs`, if the next one is later. */
  readonly wakeIn: (delayMs: number) => void
}

/**
 * Runs parked events side by side: a poll does not wait for the runs of earlier polls, and an event that takes long
 * holds one place only.
 */
export class Poller {
  readonly #parts: PollerParts
  readonly #places: number
  /** The ids of the events whose runs have not ended. */
  readonly #taken = new Set<string>()
  /** The ids of those that ended since the last search began: it may have read them before. */
  readonly #left = new Set<string>()
  readonly #runs = new Set<Promise<unknown>>()
  /** More events were due than places were free. */
  #isMoreDue = false

  constructor(parts: PollerParts) {
    this.#parts = parts
    const { options, stores } = parts.background
    // A guard that runs all its events later gets no deliveries that should come first.
    this.#places =
      options.callerRetries?.runsLater === true
        ? Math.max(POLL_LIMIT, stores.engine.slots.size)
        : POLL_LIMIT
  }

  /** Looks once, and starts what is due. Answers whether to look again at once. */
  async poll(): Promise<boolean> {
    const { background, guarded } = this.#parts
    const free = this.#places - this.#taken.size
    this.#isMoreDue = true
    if (free <= 0) return false
    this.#left.clear()
    const due = await guarded(() => takeDue(background, this.#places))
    this.#isMoreDue = false
    if (due === undefined) return false
    const { found, toRun } = due
    const waiting = toRun.filter(({ ref }) => !this.#taken.has(ref.id) && !this.#left.has(ref.id))
    const isFull = found === this.#places
    this.#isMoreDue = isFull || waiting.length > free
    if (waiting.length > 0) void track(this.#runs, this.#run(waiting.slice(0, free)))
    // Dead letters to publish are not offered again for a while.
    return isFull && toRun.length < found
  }

  /** Resolves when no run is in progress. */
  async idle(): Promise<void> {
    await Promise.all(this.#runs)
  }

  async #run(events: readonly DueEvent[]): Promise<void> {
    const { background, guarded, signals } = this.#parts
    for (const { ref } of events) this.#taken.add(ref.id)
    await guarded(() =>
      runDue(background, events, {
        signals,
        onEnded: ({ id }, outcome) => this.#ended(id, outcome),
      }),
    )
    for (const { ref } of events) this.#leave(ref.id)
  }

  /** An event that got no outcome is still due, so only one that ended is followed by the next poll at once. */
  #ended(id: string, outcome: Outcome): void {
    this.#leave(id)
    if (outcome.kind === 'failed') this.#parts.wakeIn(outcome.delayMs)
    // The next poll publishes the dead letter.
    if (outcome.kind === 'dead') this.#parts.wake()
    // Not one poll for each event, because each reads all that is due.
    if (this.#isMoreDue && this.#taken.size <= this.#places / 2) this.#parts.wake()
  }

  #leave(id: string): void {
    if (this.#taken.delete(id)) this.#left.add(id)
  }
}
