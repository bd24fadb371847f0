import type { Message } from '@aws-sdk/client-sqs'
import type { Delivery, Logger } from '@onceward/core'
import type { MaybeAsync } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import { ENTRIES, type SqsApi } from './client.ts'
import { toDelivery } from './delivery.ts'
import { classifyError } from './errors.ts'
import { LONGEST_VISIBILITY_MS, type Settings } from './options.ts'

/** A received message. Instants are milliseconds on the monotonic clock. */
export interface Received {
  readonly message: Message
  readonly handle: string
  readonly delivery: Delivery
  /** Taken before the request, because SQS counts its 12 hours from a moment during it. */
  readonly receivedAtMs: number
  /** Without renewals; set by a deferral. */
  hiddenUntilMs: number
  /** How often it was held and run again. */
  readonly rounds: number
  /** Order of arrival in this process. */
  readonly sequence: number
}

/** Registers received messages. `receivedAtMs` is from before their request, on the monotonic clock. */
export type Accept = (messages: readonly Message[], receivedAtMs: number) => readonly Received[]

/**
 * Makes the function that registers received messages and keeps them hidden. The function throws
 * {@link ConfigurationError} when a message was received without its attributes; its batch is not kept hidden then.
 */
export function createAccept(
  { queueUrl, visibilityMs }: Pick<Settings, 'queueUrl' | 'visibilityMs'>,
  ticker: { hold(received: Received): void },
): Accept {
  let sequence = 0
  return (messages, receivedAtMs) => {
    const received = messages.map((message): Received => {
      sequence += 1
      const hiddenUntilMs = receivedAtMs + visibilityMs
      const delivery = toDelivery(message, queueUrl)
      const handle = message.ReceiptHandle ?? ''
      return { message, handle, delivery, receivedAtMs, hiddenUntilMs, rounds: 0, sequence }
    })
    for (const each of received) ticker.hold(each)
    return received
  }
}

/** Seconds of visibility to ask for: `wantedMs`, cut to what SQS still allows; 0 once its 12 hours are over. */
export function visibilitySeconds(wantedMs: number, ageMs: number): number {
  // One second less than is left, because the age grows while the request is under way.
  const leftSeconds = Math.floor((LONGEST_VISIBILITY_MS - ageMs) / 1_000) - 1
  return Math.max(0, Math.min(Math.ceil(wantedMs / 1_000), leftSeconds))
}

export interface TickerOptions {
  readonly api: Pick<SqsApi, 'changeVisibility'>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly queueUrl: string
  readonly visibilityMs: number
  readonly renewMs: number
}

interface Hold {
  hiddenUntilMs: number
  /** The last renewal; it may have ended. */
  call: Promise<void> | undefined
}

/** Keeps the received messages hidden, in batches of ten, while the guard works on them. */
export class VisibilityTicker {
  readonly #options: TickerOptions
  readonly #holds = new Map<Received, Hold>()
  #cancel: (() => void) | undefined

  constructor(options: TickerOptions) {
    this.#options = options
  }

  hold(received: Received): void {
    this.#holds.set(received, { hiddenUntilMs: received.hiddenUntilMs, call: undefined })
    this.#arm()
  }

  /**
   * Ends the renewal of a message and returns when it becomes visible. Waits for a renewal in flight: after a
   * delete it would be an error, and after a deferral it would undo the deferral.
   */
  release(received: Received): MaybeAsync<number> {
    const hold = this.#holds.get(received)
    if (hold === undefined) return received.hiddenUntilMs
    this.#holds.delete(received)
    const { call } = hold
    return call === undefined ? hold.hiddenUntilMs : call.then(() => hold.hiddenUntilMs)
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(): void {
    const { runtime, renewMs } = this.#options
    this.#cancel ??= runtime.setTimer(() => this.#tick(), renewMs, { keepAlive: false })
  }

  #tick(): void {
    this.#cancel = undefined
    const { runtime, visibilityMs, renewMs } = this.#options
    const dueBeforeMs = runtime.monotonic() + visibilityMs - renewMs / 2
    const due = [...this.#holds].filter(([, hold]) => hold.hiddenUntilMs <= dueBeforeMs)
    for (let start = 0; start < due.length; start += ENTRIES) {
      this.#renew(due.slice(start, start + ENTRIES))
    }
    if (this.#holds.size > 0) this.#arm()
  }

  #renew(batch: readonly (readonly [Received, Hold])[]): void {
    const call = this.#extend(batch)
    for (const [, hold] of batch) hold.call = call
  }

  async #extend(batch: readonly (readonly [Received, Hold])[]): Promise<void> {
    const { api, runtime, visibilityMs, renewMs } = this.#options
    const nowMs = runtime.monotonic()
    const changes = batch
      .map(([received, hold]) => ({
        received,
        hold,
        handle: received.handle,
        seconds: visibilitySeconds(visibilityMs, nowMs - received.receivedAtMs),
      }))
      .filter(({ received, seconds }) => seconds > 0 || this.#giveUp(received, 'twelve hours'))
    if (changes.length === 0) return
    try {
      // A call that hangs must end before the next tick, which is the last one that renews in time.
      const refused = await api.changeVisibility(changes, renewMs / 2)
      const indexes = new Map(refused.map((entry) => [entry.index, entry]))
      for (const [index, { received, hold, seconds }] of changes.entries()) {
        const refusal = indexes.get(index)
        if (refusal === undefined) hold.hiddenUntilMs = nowMs + seconds * 1_000
        else if (refusal.senderFault) this.#giveUp(received, refusal.code)
      }
    } catch (error) {
      // The next tick comes before the visibility is over.
      const { queueUrl, logger } = this.#options
      const fields = {
        queue: queueUrl,
        messages: changes.length,
        reason: classifyError(error).text,
      }
      logger.warn(
        fields,
        'the visibility of received messages was not renewed; the next period tries again',
      )
    }
  }

  /**
   * The handler continues, because its transaction decides and not the visibility. A copy finds a claim or a row.
   */
  #giveUp(received: Received, why: string): false {
    this.#holds.delete(received)
    const { queueUrl, logger } = this.#options
    const fields = { queue: queueUrl, messageId: received.message.MessageId, why }
    logger.warn(
      fields,
      'a received message can no longer be kept hidden; it may be delivered again',
    )
    return false
  }
}
