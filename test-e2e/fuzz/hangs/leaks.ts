import { until } from '@onceward/testing'
import { heapBytes } from '@onceward/testing/heap'

/** The heap settles while the first cases are played. */
export const FIRST_CASES = 3
const MOST_GROWTH_BYTES = 64 * 2 ** 20
/** Clients end their last timers by then. */
const TIMERS_MS = 30_000

const timers = (): number =>
  process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

interface Limits {
  /** Timers that are left after these ms are leaks. */
  readonly timersMs: number
  /** By which the heap may grow over all cases after the first ones. */
  readonly mostGrowthBytes: number
}

/** What the hangs of a process leave behind in it: timers, listeners and memory. */
export class Leaks {
  readonly #warnings: string[] = []
  readonly #listen = ({ name, message }: Error): void => {
    if (name === 'MaxListenersExceededWarning') this.#warnings.push(message)
  }
  #timers = timers()
  #cases = 0
  #heap = Number.POSITIVE_INFINITY
  readonly #limits: Limits

  constructor(limits: Partial<Limits> = {}) {
    this.#limits = { timersMs: TIMERS_MS, mostGrowthBytes: MOST_GROWTH_BYTES, ...limits }
    process.on('warning', this.#listen)
  }

  /** Call it before each case. */
  begin(): void {
    this.#timers = timers()
  }

  /** Call it when everything of a case is closed. */
  async found(): Promise<readonly string[]> {
    const before = this.#timers
    // The condition waits with a timer of its own only between two looks.
    await until(() => timers() <= before, {
      deadlineMs: this.#limits.timersMs,
      everyMs: 200,
    }).catch(() => undefined)
    const left = timers() - before
    const heap = heapBytes()
    this.#cases += 1
    if (this.#cases === FIRST_CASES) this.#heap = heap
    const grown = heap - this.#heap
    return [
      ...(left > 0 ? [`${left} timers were left behind`] : []),
      ...this.#warnings.splice(0).map((message) => `listeners were left behind: ${message}`),
      ...(grown > this.#limits.mostGrowthBytes ? [`the heap has grown by ${grown} bytes`] : []),
    ]
  }

  close(): void {
    process.off('warning', this.#listen)
  }
}
