import type { Runtime } from '@onceward/core'
import { PublishError, UnroutableError } from '../errors.ts'

export interface DelayQueuesOptions {
  readonly runtime: Pick<Runtime, 'monotonic'>
  /** Declares them, or finds that they are there. */
  readonly declare: () => Promise<unknown>
  /** They were declared before the first message came. */
  readonly areDeclared: boolean
}

/** A message whose copy was refused is deferred again when it leaves the hand; that takes less than this time. */
const SLACK_MS = 2_000

/** The delay queues of one consumer: whether they are known to exist, and why messages cannot be published to them. */
export class DelayQueues {
  readonly #options: DelayQueuesOptions
  #declared: Promise<unknown> | undefined
  #failure: { readonly reason: string; readonly untilMs: number } | undefined

  constructor(options: DelayQueuesOptions) {
    this.#options = options
    if (options.areDeclared) this.#declared = Promise.resolve()
  }

  /** Undefined as soon as a message was deferred, or none that could not be deferred is in hand. */
  get outage(): { readonly state: 'recovering'; readonly reason: string } | undefined {
    const failure = this.#failure
    if (failure === undefined) return undefined
    if (this.#options.runtime.monotonic() < failure.untilMs) {
      const reason = `messages cannot be deferred and wait in hand: ${failure.reason}`
      return { state: 'recovering', reason }
    }
    this.#failure = undefined
    return undefined
  }

  /** Declares them unless they are known to exist. Calls at the same time share one declaration. */
  async ensure(): Promise<void> {
    this.#declared ??= this.#options.declare()
    const declaring = this.#declared
    try {
      await declaring
    } catch (error) {
      if (this.#declared === declaring) this.#declared = undefined
      throw error
    }
  }

  /** A message was deferred. */
  succeeded(): void {
    this.#failure = undefined
  }

  /** A message could not be deferred. If it reached no queue, an operator deleted one: the next call declares them. */
  failed(error: unknown, reason: string, untilMs: number): void {
    if (error instanceof UnroutableError) this.#declared = undefined
    // Not published at all: during an alarm, which health names, or because this one message cannot be written.
    else if (error instanceof PublishError) return
    this.#failure = { reason, untilMs: untilMs + SLACK_MS }
  }
}
