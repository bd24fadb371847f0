import type { DeadLetter } from '@onceward/core/ports'
import type { Actor, Scheduler } from '../world/scheduler.ts'

interface PlaceOptions {
  readonly scheduler: Scheduler
  readonly servers: Actor
  /** The place has the letter now. */
  readonly onLetter: (letter: DeadLetter) => void
}

/** Where dead letters go. It may refuse them, or take them long after it was asked. */
export class DeadLetterPlace {
  readonly #options: PlaceOptions
  #hangsUntilMs = 0
  #refusesUntilMs = 0

  constructor(options: PlaceOptions) {
    this.#options = options
  }

  hang(ms: number): void {
    this.#hangsUntilMs = this.#options.scheduler.nowMs + ms
  }

  refuse(ms: number): void {
    this.#refusesUntilMs = this.#options.scheduler.nowMs + ms
  }

  async take(letter: DeadLetter): Promise<void> {
    const { onLetter, scheduler, servers } = this.#options
    const leftMs = this.#hangsUntilMs - scheduler.nowMs
    if (leftMs > 0) {
      await new Promise<void>((resolve) => scheduler.setTimer(servers, resolve, leftMs))
    }
    if (scheduler.nowMs < this.#refusesUntilMs) throw new Error('the dead-letter place refuses')
    onLetter(letter)
  }
}
