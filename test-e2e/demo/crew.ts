import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { PlannedBlow } from './plan.ts'
import { SETTINGS_VARIABLE, type WorkerSettings } from './settings.ts'
import type { Signal } from './signals.ts'

const WORKERS = 3
const STOP_DEADLINE_MS = 10_000

export interface CrewOptions {
  readonly file: `${'with' | 'without'}-${'guard' | 'outbox'}.ts`
  readonly settings: WorkerSettings
  readonly plan: readonly PlannedBlow[]
  /** How long a planned pause stops a worker by SIGSTOP, in milliseconds. */
  readonly pauseMs?: number | undefined
  onBlow(worker: number, blow: PlannedBlow): void
}

/** Three worker processes that are killed and paused as planned. Killed ones are replaced at once. */
export class Crew implements AsyncDisposable {
  deliveries = 0
  kills = 0
  /** When a worker last sent a signal, as `performance.now()`. */
  heardAt: number = performance.now()
  /** Why the run cannot continue. */
  failure: Error | undefined
  readonly #options: CrewOptions
  readonly #plan: PlannedBlow[]
  readonly #workers = new Map<number, ChildProcess>()
  #runs = 0
  #over = false

  constructor(options: CrewOptions) {
    this.#options = options
    this.#plan = [...options.plan]
    this.start()
  }

  /** Starts the workers, also again after {@link stop}. */
  start(): void {
    this.#over = false
    this.heardAt = performance.now()
    for (let number = 1; number <= WORKERS; number++) this.#start(number)
  }

  fail(error: Error): void {
    this.failure ??= error
  }

  #start(number: number): void {
    const worker = fork(join(import.meta.dirname, this.#options.file), {
      env: { ...process.env, [SETTINGS_VARIABLE]: JSON.stringify(this.#options.settings) },
    })
    this.#workers.set(number, worker)
    worker.on('message', (signal: Signal) => this.#hear(number, worker, signal))
    worker.once('exit', (code, signal) => {
      if (this.#over) return
      if (signal === 'SIGKILL') this.#start(number)
      else this.fail(new Error(`worker ${number} ended by itself: ${signal ?? `code ${code}`}`))
    })
  }

  #hear(number: number, worker: ChildProcess, signal: Signal): void {
    this.heardAt = performance.now()
    if (signal.kind === 'received') this.deliveries += signal.messages
    if (signal.kind === 'in-transaction') this.#runs += 1
    if (signal.kind !== 'received') this.#hitIfPlanned(number, worker, signal.kind)
  }

  #hitIfPlanned(number: number, worker: ChildProcess, moment: PlannedBlow['moment']): void {
    const [next] = this.#plan
    if (worker.killed || next?.moment !== moment || this.#runs <= next.afterRuns) return
    this.#plan.shift()
    if (next.kind === 'pause') pause(worker, this.#options.pauseMs ?? 0)
    else {
      worker.kill('SIGKILL')
      this.kills += 1
    }
    this.#options.onBlow(number, next)
  }

  /** Lets the workers finish the messages in flight, and ends them. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end('SIGKILL')
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    this.#over = true
    const living = [...this.#workers.values()].filter(
      (worker) => worker.exitCode === null && worker.signalCode === null,
    )
    const timer = setTimeout(() => {
      for (const worker of living) worker.kill('SIGKILL')
    }, STOP_DEADLINE_MS)
    for (const worker of living) {
      worker.kill(signal)
      // A paused worker gets the signal only when it continues.
      worker.kill('SIGCONT')
    }
    await Promise.all(living.map((worker) => once(worker, 'exit')))
    clearTimeout(timer)
  }
}

/** Stops the worker. A process of its own continues it, even if this process has ended by then. */
function pause(worker: ChildProcess, ms: number): void {
  process.kill(worker.pid ?? 0, 'SIGSTOP')
  const wake = `sleep ${ms / 1_000}; kill -CONT ${worker.pid}`
  spawn('sh', ['-c', wake], { detached: true, stdio: 'ignore' }).unref()
}
