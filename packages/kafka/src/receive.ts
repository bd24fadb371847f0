import { ConfigurationError, OncewardError, type Settlement } from '@onceward/core'
import {
  CallTimeoutError,
  type ConsumptionEnd,
  endsWithin,
  isFatal,
  type Outage,
  Recovery,
  withTimeout,
} from '@onceward/core/adapter'
import type { CreatePulled, PulledConsumer, PulledEvents, PulledOptions } from './clients/port.ts'
import { PulledBatches } from './clients/pulled/pulled-batches.ts'
import { AGAIN, Reading } from './clients/pulled/reading.ts'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'

export interface ReceiverOptions extends PulledOptions {
  readonly create: CreatePulled
  /** Records may run now. */
  readonly onRunnable: () => void
  /** The consumer has partitions of these topics. */
  readonly onJoined: (topics: readonly string[]) => void
  /** The checks before the first consumer. */
  readonly check: () => Promise<void>
  readonly onEnd: (end: ConsumptionEnd) => void
}

/** For one request of a start. */
const CALL_MS = 30_000
/** For leaving the group and disconnecting together. */
const GOODBYE_MS = 3_000
/** Records that are asked for at once, of all partitions together. */
const MOST = 1_000
/** A healthy consumer answers a fetch or a heartbeat at least this often. */
const LIVELY_MS = 5_000
/** Between two looks at how long the broker was silent. */
const LOOK_MS = 1_000

const JOINING: Outage = { state: 'recovering', reason: 'joining the group' }

/**
 * Runs one consumer of the client after the other, without end.
 *
 * ```
 * check → connect → topics → subscribe → assigned → seek → fetch → records … ended → let go ─┐
 *   ↑                                       ↑                ↓                               │
 *   │                                    revoked         commit, every 250 ms                │
 *   └──────────────────────────────────────── pause ←────────────────────────────────────────┘
 * ```
 */
export class Receiver {
  readonly batches: PulledBatches
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  readonly #reading: Reading
  readonly #events: PulledEvents
  readonly #started = Promise.withResolvers<void>()
  #consumer: PulledConsumer | undefined
  /** Ends the current consumer with a reason: an error, or {@link AGAIN}. */
  #giveUp: (reason: unknown) => void = () => undefined
  #heardAtMs = 0
  #endLooks: () => void = () => undefined
  /** The group has started: what appears from here on is read from its beginning. */
  #groupHasStarted: boolean
  #hasStarted = false
  /** Ends the pause before the next consumer. */
  #endPause: () => void = () => undefined

  constructor(options: ReceiverOptions) {
    this.#options = options
    const { consumer, fromBeginning, topics } = options.settings
    this.#groupHasStarted = fromBeginning
    this.#recovery = new Recovery<BrokerErrorKind>({
      port: options.port,
      fields: { group: consumer.groupId, topics: topics.map(String) },
      classifyError,
      backoff: BACKOFF,
      check: options.check,
      onRetry: () => this.#endPause(),
      onEnd: options.onEnd,
    })
    this.batches = new PulledBatches({
      ...options,
      onFenced: () => this.#giveUp(new Error('another member has claimed a partition of this one')),
    })
    this.#reading = new Reading({
      ...options,
      batches: this.batches,
      current: () => this.#consumer,
      isAnswered: () => this.#silentMs < LIVELY_MS,
      onOver: (reason) => this.#giveUp(reason),
    })
    this.#events = this.#createEvents()
  }

  get notice(): string | undefined {
    return this.#reading.notice
  }

  /** `paused` while the store is down, whatever the broker does. */
  get outage(): Outage | undefined {
    const { outage } = this.#recovery
    if (outage !== undefined) return outage
    if (!(this.#hasStarted || this.#recovery.isStopped)) return JOINING
    const availability = this.#options.port.availability()
    if (availability.kind === 'available') return undefined
    return { state: 'paused', reason: classifyError(availability.error).text }
  }

  get lastProgressAt(): Date | undefined {
    return this.#recovery.lastProgressAt
  }

  /** @throws {@link ConfigurationError}; any other error is retried. */
  start(): Promise<void> {
    void this.#live()
    return this.#started.promise
  }

  /** Starts no new consumer from now on; the current one stays a member of its group. */
  stop(): void {
    this.#recovery.stop()
  }

  /** Leaves the group, in bounded time: the client finishes the rest later. Never rejects. */
  async finish(): Promise<void> {
    this.stop()
    await this.#letGo()
  }

  known(settlement: Settlement): void {
    this.#recovery.progressed()
    this.#recovery.known(settlement)
  }

  async #live(): Promise<void> {
    while (!this.#recovery.isStopped) {
      const error = await this.#liveOnce()
      await this.#letGo()
      if (this.#recovery.isStopped) break
      if (error === AGAIN) continue
      const fatal = await this.#fatal(error)
      if (fatal !== undefined) {
        if (this.#hasStarted) this.#recovery.endOn(fatal)
        else this.#started.reject(fatal)
        return
      }
      await this.#pause(error)
    }
    this.#start()
  }

  /** From now on errors go to `health()` and `stopped`, because the user has the consumption. */
  #start(): void {
    this.#hasStarted = true
    this.#started.resolve()
  }

  /** Runs one consumer. Resolves with what ended it. Never rejects. */
  async #liveOnce(): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<unknown>()
    try {
      await this.#recovery.checkOnce()
      if (this.#recovery.isStopped) return undefined
      this.#giveUp = resolve
      const consumer = this.#options.create(this.#options, this.#events)
      this.#consumer = consumer
      await this.#begin(consumer)
      if (this.#recovery.isStopped) return undefined
      void this.#fetch(consumer)
      return await promise
    } catch (error) {
      return error
    } finally {
      this.#endLooks()
      this.#reading.end()
    }
  }

  /** Leaves the group, in bounded time: the client finishes the rest later. Never rejects. */
  async #letGo(): Promise<void> {
    const consumer = this.#consumer
    this.#consumer = undefined
    this.#giveUp(undefined)
    if (consumer === undefined) return
    await endsWithin(this.#options.port.runtime, consumer.close(), GOODBYE_MS)
  }

  async #begin(consumer: PulledConsumer): Promise<void> {
    const { port, settings } = this.#options
    const within = <Answer>(asking: Promise<Answer>): Promise<Answer> =>
      withTimeout(port.runtime, asking, { call: 'the cluster', budgetMs: CALL_MS })
    this.batches.attach(consumer)
    await within(consumer.connect())
    const topics = await within(this.#reading.topicsOf(consumer))
    this.#groupHasStarted ||= await within(consumer.startAtEnds(topics))
    this.#heard()
    const { rebalanceTimeout = 60_000, sessionTimeout } = settings.consumer
    // A join waits for every other member, so a healthy consumer may be silent for that long.
    this.#look(Math.max(rebalanceTimeout, sessionTimeout) + sessionTimeout)
    await consumer.subscribe(topics)
  }

  #createEvents(): PulledEvents {
    const { batches } = this
    const reading = this.#reading
    return {
      onAssigned: async (partitions, isNewMember) => {
        const consumer = this.#consumer
        if (consumer === undefined) return
        this.#heard()
        if (isNewMember) reading.clear()
        try {
          await reading.begin(consumer, partitions)
          if (consumer === this.#consumer) this.#recovered()
        } catch (error) {
          if (consumer === this.#consumer) this.#giveUp(error)
        }
      },
      onRevoked: (partitions) => {
        reading.forget(partitions)
        return batches.revoked(partitions)
      },
      onLost: (partitions) => {
        reading.forget(partitions)
        batches.lost(partitions)
      },
      onHeld: (isHeld) => batches.held(isHeld),
      onAnswered: () => {
        this.#heard()
        batches.answered()
        this.#recovery.progressed()
      },
      onEnded: (error) => this.#giveUp(error),
    }
  }

  async #fetch(consumer: PulledConsumer): Promise<void> {
    try {
      while (consumer === this.#consumer) {
        const fetched = await consumer.fetch(MOST)
        if (consumer !== this.#consumer) return
        if (fetched.length > 0) {
          this.#heard()
          this.#recovery.progressed()
        }
        if (!(await this.#reading.take(consumer, fetched))) return
      }
    } catch (error) {
      if (consumer === this.#consumer) this.#giveUp(error)
    }
  }

  /** The error that ends the consumer; undefined for one that is retried. */
  async #fatal(error: unknown): Promise<unknown> {
    if (isFatal(error)) return error
    if (OncewardError.is(error)) return undefined
    const { kind, text } = classifyError(error)
    const { groupId } = this.#options.settings.consumer
    if (kind === 'configuration') {
      const fix = 'Correct the options of the consumer, or the settings of the broker or the group.'
      const refusal = `Kafka refuses the consumer of group '${groupId}': ${text}. ${fix}`
      return new ConfigurationError(refusal, { cause: error })
    }
    const { mayRestart } = this.#options.settings
    if (mayRestart === undefined) return undefined
    // It may take long.
    this.#recovery.begin({ state: 'recovering', reason: text })
    try {
      return (await mayRestart(error as Error)) === false ? error : undefined
    } catch {
      return undefined
    }
  }

  async #pause(error: unknown): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#endPause = resolve
    this.#recovery.failed(error)
    this.#start()
    // A stop ends the timer of the pause, and nothing comes after it.
    await promise
  }

  #recovered(): void {
    this.#recovery.succeeded()
    this.#recovery.progressed()
    this.#start()
    this.#recovery.end()
  }

  get #silentMs(): number {
    return this.#options.port.runtime.monotonic() - this.#heardAtMs
  }

  #heard(): void {
    this.#heardAtMs = this.#options.port.runtime.monotonic()
  }

  /** Ends a consumer whose broker is silent for too long. */
  #look(limitMs: number): void {
    const { runtime } = this.#options.port
    const look = (): void => {
      if (this.#silentMs < limitMs) this.#look(limitMs)
      else this.#giveUp(new CallTimeoutError('Fetches and heartbeats', limitMs))
    }
    this.#endLooks = runtime.setTimer(look, LOOK_MS, { keepAlive: false })
  }
}
