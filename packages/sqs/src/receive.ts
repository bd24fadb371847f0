import type { Message } from '@aws-sdk/client-sqs'
import type { Settlement } from '@onceward/core'
import {
  type ConsumptionEnd,
  type GuardPort,
  isFatal,
  type Outage,
  Recovery,
} from '@onceward/core/adapter'
import { ENTRIES, type SqsApi } from './client.ts'
import type { Dispatcher } from './dispatch.ts'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import type { Accept, Received } from './visibility.ts'

export interface ReceiverOptions {
  readonly port: GuardPort
  readonly api: Pick<SqsApi, 'longestPollMs' | 'receive'>
  readonly settings: Settings
  readonly accept: Accept
  readonly dispatcher: Pick<
    Dispatcher,
    | 'capacity'
    | 'room'
    | 'worthwhile'
    | 'noteReceive'
    | 'take'
    | 'park'
    | 'resume'
    | 'refuse'
    | 'track'
  >
  /** Aborted when the time of a drain is over. */
  readonly abort: AbortSignal
  /** Must have succeeded before the first receive. */
  readonly check: () => Promise<void>
  readonly onEnd: (end: ConsumptionEnd) => void
}

interface Poll {
  readonly max: number
  readonly waitMs: number
  readonly startedAtMs: number
  /** Probes whether the store is back. */
  readonly isProbe: boolean
}

/** Long polls at once; each brings up to ten messages. */
const MOST_POLLS = 10
/** Pause between two empty receives that did not long-poll. */
const EMPTY_PAUSE_MS = 200

/**
 * Receives as many messages as can start soon, until it is stopped. An error of SQS is retried after a pause (trap T16:
 * one transient error silently ends a naive poll loop). While the store is down, one message at a time probes whether
 * it is back.
 */
export class Receiver {
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  readonly #polls = new Set<Promise<void>>()
  /** Polls wanted at once: one more whenever a poll brought something, one while the queue is empty. */
  #wantedPolls = 1
  /** Messages that the polls under way may bring. */
  #reserved = 0

  constructor(options: ReceiverOptions) {
    const { port, settings } = options
    this.#options = options
    this.#recovery = new Recovery<BrokerErrorKind>({
      port,
      fields: { queue: settings.queueUrl },
      classifyError,
      backoff: BACKOFF,
      check: options.check,
      onRetry: () => this.pump(),
      onEnd: options.onEnd,
    })
  }

  get outage(): Outage | undefined {
    return this.#recovery.outage
  }

  get lastProgressAt(): Date | undefined {
    return this.#recovery.lastProgressAt
  }

  /** @throws {@link ConfigurationError}; any other error is retried. */
  start(): Promise<void> {
    return this.#recovery.start()
  }

  /**
   * Makes no more receives. Those under way end by themselves: SQS may answer a receive that was aborted, and hides
   * those messages for a whole visibility timeout (trap B2).
   */
  async stop(): Promise<void> {
    this.#recovery.stop()
    for (const poll of this.#polls) this.#options.dispatcher.track(poll)
  }

  /** A settlement is stored: the store has answered. */
  known(settlement: Settlement): void {
    this.#recovery.known(settlement)
  }

  progressed(): void {
    this.#recovery.progressed()
  }

  /** Receives if there is reason to. */
  pump(): void {
    if (!this.#recovery.mayReceive()) return
    const gate = this.#recovery.look()
    if (gate === 'probe') this.#probe()
    if (gate !== 'open') return
    const { dispatcher } = this.#options
    dispatcher.resume('all')
    while (this.#polls.size < this.#wantedPolls) {
      const room = dispatcher.room - this.#reserved
      if (room < dispatcher.worthwhile) return
      this.#poll(Math.min(ENTRIES, room, this.#options.settings.batchSize), false)
    }
  }

  /**
   * Lets one message probe the store, preferably one that was received already, because each receive counts towards `maxReceiveCount`.
   */
  #probe(): void {
    const isInHand = this.#options.dispatcher.resume('one')
    if (!isInHand && this.#polls.size > 0) return
    this.#recovery.store.probing()
    if (!isInHand) this.#poll(1, true)
  }

  /** SQS hides and counts the messages of an answer that the client no longer waits for. */
  get #longPollMs(): number {
    const { api, settings } = this.#options
    return Math.min(settings.longPollMs, api.longestPollMs() ?? settings.longPollMs)
  }

  #poll(max: number, isProbe: boolean): void {
    const { port } = this.#options
    // After an outage the first receive does not long-poll: it only shows that SQS answers.
    const waitMs = this.outage?.state === 'recovering' ? 0 : this.#longPollMs
    const startedAtMs = port.runtime.monotonic()
    this.#reserved += max
    const poll = this.#receive({ max, waitMs, startedAtMs, isProbe }).then(() => {
      this.#polls.delete(poll)
      this.pump()
    })
    this.#polls.add(poll)
  }

  async #receive(poll: Poll): Promise<void> {
    const { api, settings, accept } = this.#options
    const { max, waitMs, startedAtMs, isProbe } = poll
    try {
      const request = { max, waitMs, visibilityMs: settings.visibilityMs }
      const messages = await api.receive(request, this.#options.abort).finally(() => {
        this.#reserved -= max
      })
      // An answer that cannot be read is a failure: the pauses grow, and it is logged once.
      const received = accept(messages, startedAtMs)
      this.#answered(poll, messages)
      this.#take(received, isProbe)
    } catch (error) {
      if (isProbe) this.#recovery.store.answered()
      this.#failed(error)
    }
  }

  #answered({ max, waitMs, startedAtMs, isProbe }: Poll, messages: readonly Message[]): void {
    const { port, dispatcher } = this.#options
    const tookMs = port.runtime.monotonic() - startedAtMs
    this.progressed()
    this.#recovery.succeeded()
    if (this.outage?.state === 'recovering') this.#recovery.end()
    if (messages.length > 0) {
      // One that brought less has waited for messages, so its time says nothing about SQS.
      if (messages.length === max) dispatcher.noteReceive(tookMs)
      const most = Math.min(MOST_POLLS, Math.ceil(dispatcher.capacity / ENTRIES))
      this.#wantedPolls = Math.min(this.#wantedPolls + 1, most)
      return
    }
    this.#wantedPolls = 1
    if (isProbe) this.#recovery.store.answered()
    const isShort = this.#longPollMs < 1_000 || tookMs < waitMs / 2
    if (isShort) this.#recovery.pause(EMPTY_PAUSE_MS * (1 + port.runtime.random()))
  }

  #take(received: readonly Received[], isProbe: boolean): void {
    const { dispatcher } = this.#options
    if (this.#recovery.isStopped) {
      dispatcher.refuse(received)
      return
    }
    const { start, wait } = isProbe
      ? { start: received, wait: [] }
      : this.#recovery.store.admit(received)
    if (start.length > 0) dispatcher.take(start)
    if (wait.length > 0) dispatcher.park(wait)
  }

  #failed(error: unknown): void {
    this.#wantedPolls = 1
    if (isFatal(error)) this.#recovery.endOn(error)
    // Several polls that fail together are one failure.
    if (!(this.#recovery.isStopped || this.#recovery.isPausing)) this.#recovery.failed(error)
  }
}
