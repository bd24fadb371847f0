import type { Message } from '@aws-sdk/client-sqs'
import type { OncewardError, Settlement } from '@onceward/core'
import {
  type Availability,
  byOrderingKey,
  type ConsumptionEnd,
  type GuardPort,
  isFatal,
  isGuardClosed,
  type Outage,
  Recovery,
  STORE_LOOK_MS,
} from '@onceward/core/adapter'
import { ENTRIES, type SqsApi } from './client.ts'
import type { Accept, Received } from './delivery.ts'
import type { Dispatcher } from './dispatch.ts'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'
import type { Settings } from './options.ts'

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

type Down = Extract<Availability, { kind: 'down' }>

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
  lastProgressAt: Date | undefined
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  readonly #polls = new Set<Promise<void>>()
  #check: 'due' | 'running' | 'done' = 'due'
  /** Polls wanted at once: one more whenever a poll brought something, one while the queue is empty. */
  #wantedPolls = 1
  /** Messages that the polls under way may bring. */
  #reserved = 0
  #isProbing = false

  constructor(options: ReceiverOptions) {
    const { port, settings } = options
    this.#options = options
    this.#recovery = new Recovery<BrokerErrorKind>({
      port,
      fields: { queue: settings.queueUrl },
      classifyError,
      backoff: BACKOFF,
      onRetry: () => this.pump(),
    })
  }

  get outage(): Outage | undefined {
    return this.#recovery.outage
  }

  /** @throws {@link ConfigurationError}; any other error is retried. */
  async start(): Promise<void> {
    const error = await this.#runCheck()
    if (error !== undefined) throw error
    this.pump()
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
    this.#isProbing = false
    if (isGuardClosed(settlement) && !this.#recovery.isStopped) {
      this.#options.onEnd({ kind: 'closed' })
    }
  }

  progressed(): void {
    this.lastProgressAt = new Date(this.#options.port.runtime.now())
  }

  /** Receives if there is reason to. */
  pump(): void {
    const { isStopped, isPausing } = this.#recovery
    if (isStopped || isPausing || this.#check === 'running') return
    if (this.#check === 'due') return void this.#checkAgain()
    const { port, dispatcher } = this.#options
    const availability = port.availability()
    if (availability.kind === 'down') {
      this.#probe(availability)
      return
    }
    if (this.outage?.state === 'paused') this.#recovery.end()
    dispatcher.resume('all')
    while (this.#polls.size < this.#wantedPolls) {
      const room = dispatcher.room - this.#reserved
      if (room < dispatcher.worthwhile) return
      this.#poll(Math.min(ENTRIES, room, this.#options.settings.batchSize), false)
    }
  }

  /**
   * Lets one message probe the store, preferably one in hand, because each receive counts towards `maxReceiveCount`.
   */
  #probe({ retryAt, error }: Down): void {
    const { port, dispatcher } = this.#options
    this.#recovery.storeIsDown(error)
    const waitMs = retryAt - port.runtime.now()
    if (waitMs > 0) this.#recovery.pause(Math.min(waitMs, STORE_LOOK_MS))
    if (waitMs > 0 || this.#isProbing) return
    const isInHand = dispatcher.resume('one')
    this.#isProbing = isInHand || this.#polls.size === 0
    if (this.#isProbing && !isInHand) this.#poll(1, true)
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
      if (isProbe) this.#isProbing = false
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
    if (isProbe) this.#isProbing = false
    const isShort = this.#longPollMs < 1_000 || tookMs < waitMs / 2
    if (isShort) this.#recovery.pause(EMPTY_PAUSE_MS * (1 + port.runtime.random()))
  }

  #take(received: readonly Received[], isProbe: boolean): void {
    const { port, dispatcher } = this.#options
    const availability = port.availability()
    if (this.#recovery.isStopped) dispatcher.refuse(received)
    else if (availability.kind === 'available' || isProbe) dispatcher.take(received)
    else this.#takeLate(received, availability)
  }

  /** Messages of a receive from before the outage wait for the store; one group of them may probe it. */
  #takeLate(received: readonly Received[], { retryAt }: Down): void {
    const { port, dispatcher } = this.#options
    const mayProbe = !this.#isProbing && retryAt <= port.runtime.now()
    const probe = mayProbe ? (byOrderingKey(received)[0] ?? []) : []
    this.#isProbing ||= probe.length > 0
    dispatcher.take(probe)
    dispatcher.park(received.filter((each) => !probe.includes(each)))
  }

  #failed(error: unknown): void {
    this.#wantedPolls = 1
    if (isFatal(error)) this.#options.onEnd({ kind: 'fatal', error })
    // Several polls that fail together are one failure.
    if (!(this.#recovery.isStopped || this.#recovery.isPausing)) this.#recovery.failed(error)
  }

  /** Returns the error that stops the consumer, if there is one. */
  async #runCheck(): Promise<OncewardError | undefined> {
    this.#check = 'running'
    try {
      await this.#options.check()
      this.#check = 'done'
      this.#recovery.succeeded()
      this.#recovery.end()
    } catch (error) {
      this.#check = 'due'
      if (isFatal(error)) return error
      this.#recovery.failed(error)
    }
    return undefined
  }

  async #checkAgain(): Promise<void> {
    const error = await this.#runCheck()
    if (error !== undefined) this.#options.onEnd({ kind: 'fatal', error })
    else this.pump()
  }
}
