import { type ChildProcess, fork } from 'node:child_process'
import { once as onceEmitted } from 'node:events'
import { join } from 'node:path'
import type { CallerConfig, TickingConfig, Told } from './protocol.ts'

/** A process that calls `once`, or whose scheduler does. */
export class Caller implements AsyncDisposable {
  readonly told: Told[] = []
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>

  constructor(file: string, config: CallerConfig | TickingConfig) {
    const { NODE_OPTIONS: _, ...env } = process.env
    const execArgv = ['--conditions=@onceward/source', '--no-warnings']
    this.#child = fork(join(import.meta.dirname, file), [JSON.stringify(config)], { env, execArgv })
    this.#ended = onceEmitted(this.#child, 'exit')
    this.#child.on('message', (told: Told) => this.told.push(told))
  }

  has(kind: Told['kind'], times = 1): boolean {
    return this.told.filter((each) => each.kind === kind).length >= times
  }

  get answers(): readonly unknown[] {
    return this.told.flatMap((each) => (each.kind === 'answer' ? [each.answer] : []))
  }

  /** The ticks that it told of. */
  ticks(kind: 'fired' | 'running' | 'stuck'): readonly string[] {
    return this.told.flatMap((each) => (each.kind === kind && 'tick' in each ? [each.tick] : []))
  }

  /** Ends it as a platform does. */
  stop(): Promise<unknown> {
    this.#child.kill('SIGTERM')
    return this.#ended
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  async ended(): Promise<number | null> {
    await this.#ended
    return this.#child.exitCode
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.kill()
  }
}
