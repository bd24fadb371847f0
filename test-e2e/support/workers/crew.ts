import type { Testbed } from '../testbed.ts'
import type { WorkerConfig } from './protocol.ts'
import type { WorkerProcess } from './worker-process.ts'

export interface CrewOptions {
  /** What its workers have beside the testbed's own configuration. */
  readonly config?: Partial<WorkerConfig>
  /** Workers are hired with these scripts in turn. Default: that of this checkout. */
  readonly scripts?: readonly string[]
}

/** Several workers on one queue. A worker that dies is replaced by a new process, as a platform does. */
export class Crew {
  readonly #testbed: Testbed
  readonly #options: CrewOptions
  readonly #members = new Set<WorkerProcess>()
  #hired = 0
  #isOver = false
  /** How members ended: a signal, or an exit code if the process ended by itself. */
  readonly deaths: (NodeJS.Signals | number | null)[] = []

  private constructor(testbed: Testbed, options: CrewOptions) {
    this.#testbed = testbed
    this.#options = options
  }

  static async of(count: number, testbed: Testbed, options: CrewOptions = {}): Promise<Crew> {
    const crew = new Crew(testbed, options)
    await Promise.all(Array.from({ length: count }, () => crew.#hire()))
    return crew
  }

  get members(): readonly WorkerProcess[] {
    return [...this.#members]
  }

  /** From now on dead members are not replaced. */
  end(): void {
    this.#isOver = true
  }

  async #hire(): Promise<void> {
    const { config, scripts = [] } = this.#options
    const script = scripts[this.#hired % scripts.length]
    this.#hired += 1
    const worker = this.#testbed.spawn(`worker-${this.#hired}`, config, script)
    this.#members.add(worker)
    void worker.ended().then((how) => this.#replace(worker, how))
    await worker.start().catch((error: unknown) => {
      // The worker was killed before it had started, and is replaced.
      if (worker.isAlive) throw error
    })
  }

  async #replace(worker: WorkerProcess, how: NodeJS.Signals | number | null): Promise<void> {
    this.#members.delete(worker)
    if (this.#isOver || this.#testbed.isClosing) return
    this.deaths.push(how)
    // A replacement may start slowly while the broker is down. It continues by itself.
    await this.#hire().catch(() => undefined)
  }
}
