import type { Logger } from '@onceward/core'
import type { Runtime } from '@onceward/core/ports'
import type { NatsApi, NatsMessage, Pulled, Terms } from './client.ts'
import type { Received, Registry } from './delivery.ts'
import { classifyError } from './errors.ts'

export interface OwnedMessagesOptions {
  readonly api: Pick<NatsApi, 'confirm' | 'say'>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly queue: string
  readonly terms: Pick<Terms, 'ackWaitMs'>
}

/** Its run decides by its transaction, whoever has the message. */
const LOST = 'a message was not renewed in time, and another consumer may have it now'

/**
 * The messages in hand. They are renewed as long as they are, so that the server gives them to no other consumer.
 *
 * The server takes what any consumer says about a message, also a process that was frozen until another one had it. So
 * this one compares its own clock: from `untilMs` of a claim it says nothing more.
 */
export class OwnedMessages implements Registry {
  onLost: ((lost: Received) => void) | undefined
  readonly #options: OwnedMessagesOptions
  readonly #owned = new Map<string, Received>()
  #isRenewing = false
  #cancel: (() => void) | undefined

  constructor(options: OwnedMessagesOptions) {
    this.#options = options
  }

  again(message: Pulled, untilMs: number): boolean {
    const own = this.#owned.get(keyOf(message))
    if (own === undefined) return false
    own.claim.reply = message.reply
    own.claim.untilMs = untilMs
    return true
  }

  hold(received: Received): void {
    this.#owned.set(keyOf(received.message), received)
    this.#arm()
  }

  /** Ends the renewal of a message. */
  release({ message }: Pick<Received, 'message'>): void {
    this.#owned.delete(keyOf(message))
  }

  /** The stream was created anew: what is said about one of its sequences would be said about another message. */
  forget(): void {
    for (const received of [...this.#owned.values()]) this.#lose(received)
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(): void {
    const { runtime, terms } = this.#options
    const tick = (): void => {
      this.#cancel = undefined
      this.#tick()
    }
    this.#cancel ??= runtime.setTimer(tick, terms.ackWaitMs / 3, { keepAlive: false })
  }

  #tick(): void {
    if (this.#owned.size === 0) return
    const nowMs = this.#options.runtime.monotonic()
    for (const received of [...this.#owned.values()]) {
      if (received.claim.untilMs <= nowMs) this.#lose(received)
    }
    // The one before may still wait for its answer.
    if (!this.#isRenewing) void this.#renew()
    this.#arm()
  }

  #lose(received: Received): void {
    const { logger, queue } = this.#options
    received.claim.untilMs = 0
    this.release(received)
    logger.warn({ queue, sequence: received.message.info.streamSequence }, LOST)
    this.onLost?.(received)
  }

  async #renew(): Promise<void> {
    const { api, runtime, terms, queue, logger } = this.#options
    const all = [...this.#owned.values()]
    const untilMs = runtime.monotonic() + terms.ackWaitMs
    this.#isRenewing = true
    try {
      for (const { claim } of all) api.say(claim.reply, '+WPI')
      await api.confirm()
      for (const { claim } of all) {
        if (claim.untilMs > runtime.monotonic()) claim.untilMs = Math.max(claim.untilMs, untilMs)
      }
    } catch (error) {
      const fields = { queue, messages: all.length, reason: classifyError(error).text }
      logger.warn(fields, 'received messages were not renewed; the next period tries again')
    } finally {
      this.#isRenewing = false
    }
  }
}

/** Of two streams of one name the sequences may be the same, the times are not. */
export const keyOf = ({ info }: Pick<NatsMessage, 'info'>): string =>
  `${info.streamSequence}/${info.timestampNanos}`
