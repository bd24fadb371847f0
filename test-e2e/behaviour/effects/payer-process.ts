import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Settlement } from '@onceward/core'
import { until } from '@onceward/testing'
import type { Order, PayerConfig } from './protocol.ts'

const FILE = join(import.meta.dirname, 'payer.ts')

/** A worker process that gets one delivery at a time. */
export class PayerProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>

  constructor(config: PayerConfig) {
    const { NODE_OPTIONS: _, ...env } = process.env
    const execArgv = ['--conditions=@onceward/source', '--no-warnings']
    this.#child = fork(FILE, [JSON.stringify(config)], { env, execArgv })
    this.#ended = once(this.#child, 'exit')
  }

  /** Delivers once; resolves with the settlement, or with undefined if the process ended meanwhile. */
  async deliver(order: Order): Promise<Settlement | undefined> {
    const answer = once(this.#child, 'message')
    this.#child.send(order)
    const [settlement] = (await Promise.race([answer, this.#ended.then(() => [])])) as unknown[]
    return settlement as Settlement | undefined
  }

  /** Delivers the message again until it is acked or dead-lettered, or the process has ended. */
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

  /** Freezes the process, or continues it. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal)
  }

  /** Resolves with how the process has ended. */
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
