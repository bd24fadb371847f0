import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Settlement } from '@onceward/core'
import { until } from '@onceward/testing'
import type { Order, PayerConfig } from './protocol.ts'

const FILE = join(import.meta.dirname, 'payer.ts')

/** A worker as its test sees it: one delivery at a time. */
export class PayerProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>

  constructor(config: PayerConfig) {
    const { NODE_OPTIONS: _, ...env } = process.env
    const execArgv = ['--conditions=@onceward/source', '--no-warnings']
    this.#child = fork(FILE, [JSON.stringify(config)], { env, execArgv })
    this.#ended = once(this.#child, 'exit')
  }

  /** One delivery, and what it was settled as. Nothing, when the process ended meanwhile. */
  async deliver(order: Order): Promise<Settlement | undefined> {
    const answer = once(this.#child, 'message')
    this.#child.send(order)
    const [settlement] = (await Promise.race([answer, this.#ended.then(() => [])])) as unknown[]
    return settlement as Settlement | undefined
  }

  /** As a broker does: brings the message again until it is settled for good, or the process has ended. */
  async settle(order: Order): Promise<Settlement | undefined> {
    const { settlement } = await until(
      async () => {
        const answer = await this.deliver(order)
        const isAgain = answer?.kind === 'defer' || answer?.kind === 'abandon'
        return isAgain ? undefined : { settlement: answer }
      },
      { what: 'a settlement for good', deadlineMs: 60_000, everyMs: 50 },
    )
    return settlement
  }

  /** Freezes the process, or lets it go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal)
  }

  /** The end that it brings about itself. */
  async ended(): Promise<NodeJS.Signals | number | null> {
    await this.#ended
    return this.#child.signalCode ?? this.#child.exitCode
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGKILL')
    await this.#ended
  }
}
