import { withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import { PublishError, UnroutableError } from '../errors.ts'
import { levelQueue } from '../topology.ts'
import { exists, type OpenChannel } from './calls.ts'

export interface DelayQueuesOptions {
  readonly runtime: Runtime
  /** Declares them, or finds that they are there. */
  readonly declare: () => Promise<unknown>
  /** Whether they are there. */
  readonly look: () => Promise<boolean>
  /** They were declared before the first message came. */
  readonly areDeclared: boolean
}

/** A message whose copy was refused is deferred again when it leaves the hand; that takes less than this time. */
const SLACK_MS = 2_000
/**
 * A policy may delete a queue that is not used for some time (`expires`), with its messages. Publishing does not count as use of a queue;
 * to look at it is one, except at a quorum queue.
 */
const LOOK_MS = 60_000
/** For all of them. */
const LOOKING_MS = 5_000

/** Whether all delay queues of a queue are there. */
export async function areThere(
  open: OpenChannel,
  { levelsMs, queue }: { readonly queue: string; readonly levelsMs: readonly number[] },
): Promise<boolean> {
  for (const levelMs of levelsMs) {
    if (!(await exists(open, levelQueue(queue, levelMs)))) return false
  }
  return true
}

/** The delay queues of one consumer: whether they are known to exist, and why messages cannot be published to them. */
export class DelayQueues {
  readonly #options: DelayQueuesOptions
  #declared: Promise<unknown> | undefined
  #seenAtMs: number
  #failure: { readonly reason: string; readonly untilMs: number } | undefined

  constructor(options: DelayQueuesOptions) {
    this.#options = options
    this.#seenAtMs = options.runtime.monotonic()
    if (options.areDeclared) this.#declared = Promise.resolve()
  }

  /** Undefined as soon as a message was deferred, or no held message is left that could not be deferred. */
  get outage(): { readonly state: 'recovering'; readonly reason: string } | undefined {
    const failure = this.#failure
    if (failure === undefined || this.#options.runtime.monotonic() >= failure.untilMs)
      return undefined
    const reason = `messages cannot be deferred and are held: ${failure.reason}`
    return { state: 'recovering', reason }
  }

  /**
   * Declares them unless they are known to exist, and looks at them once a minute. Calls at the same time share one
   * declaration.
   */
  async ensure(): Promise<void> {
    const { declare, runtime } = this.#options
    const nowMs = runtime.monotonic()
    if (this.#declared === undefined || nowMs - this.#seenAtMs >= LOOK_MS) {
      this.#seenAtMs = nowMs
      this.#declared = this.#declared === undefined ? declare() : this.#lookAgain()
    }
    try {
      await this.#declared
    } catch (error) {
      this.#declared = undefined
      throw error
    }
  }

  /**
   * A look that fails says nothing: publishing finds out more. It needs a channel, which the connection may not allow, and
   * hangs on a connection that the broker blocks.
   */
  async #lookAgain(): Promise<void> {
    const { declare, look, runtime } = this.#options
    const looking = withTimeout(runtime, look(), { call: 'a look', budgetMs: LOOKING_MS })
    if (!(await looking.catch(() => true))) await declare()
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
