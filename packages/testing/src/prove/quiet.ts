import { setTimeout as pause } from 'node:timers/promises'
import type { ProveOptions } from './options.ts'
import type { Stage } from './stage.ts'

const PATIENCE_MS = 10_000
const STUCK_MS = 120_000
const LOOK_MS = 150
/** A look may fall between the end of a message and the receipt of the next one. */
const CALM_LOOKS = 3
/** Freezes are looked at less often, because each look is a query of the user. */
const COUNT_MS = 500

export type QuietOptions = Pick<ProveOptions, 'patienceMs' | 'signal' | 'stuckMs'> &
  Pick<Stage, 'author' | 'crew' | 'database' | 'identities' | 'place' | 'plan' | 'messages'>

/** Whether something is still to be done. */
export class Quiet {
  readonly #options: QuietOptions
  left = 0

  constructor(options: QuietOptions) {
    this.#options = options
  }

  /** Looks of which several in a row must find nothing to do. */
  looks(): { isDone(): Promise<boolean> } {
    let calm = 0
    return {
      isDone: async () => {
        calm = (await this.#toDo()) === 0 ? calm + 1 : 0
        return calm >= CALM_LOOKS
      },
    }
  }

  /**
   * Resolves when nothing is to be done and every event has an effect; or when nothing has changed for a while, and what
   * has no effect then is lost.
   */
  async whenDone(): Promise<void> {
    const { patienceMs = PATIENCE_MS, stuckMs = STUCK_MS } = this.#options
    let before = ''
    let calm = 0
    let changedAt = performance.now()
    while (true) {
      this.#check()
      const toDo = await this.#toDo()
      const { effects, events } = await this.#effects()
      const now = `${toDo} ${effects}`
      if (now !== before) changedAt = performance.now()
      before = now
      calm = toDo === 0 && events === this.#options.messages.length ? calm + 1 : 0
      const silentMs = performance.now() - changedAt
      if (calm >= CALM_LOOKS || silentMs > (toDo === 0 ? patienceMs : stuckMs)) {
        this.left = toDo
        return
      }
      await pause(LOOK_MS)
    }
  }

  /** Resolves when others have had the effects of these events, after the longest time at the latest. */
  async whenTakenOver(events: readonly number[], longestMs: number): Promise<void> {
    const { author, identities } = this.#options
    const count = async (): Promise<number> => {
      const { byEvent } = identities.effectsOf(await author.count())
      return events.reduce((sum, event) => sum + (byEvent.get(event) ?? 0), 0)
    }
    const endsAt = performance.now() + longestMs
    const before = await count()
    while (performance.now() < endsAt && (await count()) <= before) {
      this.#check()
      await pause(COUNT_MS)
    }
  }

  /** Messages in the broker and in the workers, and events that wait in the inbox. */
  async #toDo(): Promise<number> {
    const { crew, database, place } = this.#options
    const counts = await Promise.all([place.waiting(), crew.inFlight(), database.waiting()])
    return counts.reduce((sum, each) => sum + each, 0)
  }

  async #effects(): Promise<{ readonly events: number; readonly effects: number }> {
    const { author, identities } = this.#options
    const { byEvent } = identities.effectsOf(await author.count())
    const effects = [...byEvent.values()].reduce((sum, each) => sum + each, 0)
    return { events: byEvent.size, effects }
  }

  #check(): void {
    const { crew, signal } = this.#options
    signal?.throwIfAborted()
    if (crew.failure !== undefined) throw crew.failure
  }
}
