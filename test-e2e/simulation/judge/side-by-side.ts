import type { EventId } from '@onceward/core/ports'
import type { Life } from '../world/process.ts'

export interface Run {
  readonly of: EventId | 'bystander'
  readonly isAlone: boolean
}

/** The handlers that each process runs at the same time: beside an event that runs alone there must be none. */
export class SideBySide {
  readonly #running = new Map<Life, Set<Run>>()
  readonly #violate: (why: string) => void

  constructor(violate: (why: string) => void) {
    this.#violate = violate
  }

  /** The returned function says that the handler has ended. */
  started(life: Life, run: Run): () => void {
    const running = this.#running.get(life) ?? new Set()
    this.#running.set(life, running)
    for (const other of running) {
      if (run.isAlone || other.isAlone)
        this.#violate(`${run.of} and ${other.of} ran beside each other, one of them alone`)
    }
    running.add(run)
    return () => running.delete(run)
  }
}
