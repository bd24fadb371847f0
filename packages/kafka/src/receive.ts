import { ConfigurationError, OncewardError, type Settlement } from '@onceward/core'
import {
  type ConsumptionEnd,
  type GuardPort,
  isFatal,
  type Outage,
  Recovery,
} from '@onceward/core/adapter'
import { AGAIN, type ConsumerLife, type RecordSource } from './clients/port.ts'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'
import type { ConsumerSettings } from './options.ts'

export interface ReceiverOptions {
  readonly port: GuardPort
  readonly settings: ConsumerSettings
  readonly source: RecordSource
  /** The checks before the first consumer. */
  readonly check: () => Promise<void>
  readonly onEnd: (end: ConsumptionEnd) => void
}

const JOINING: Outage = { state: 'recovering', reason: 'joining the group' }

/**
 * Runs one consumer of the client after the other, without end.
 *
 * ```
 * check → live … ended → let go ─┐
 *   ↑                            │
 *   └────────── pause ←──────────┘
 * ```
 */
export class Receiver {
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  readonly #started = Promise.withResolvers<void>()
  readonly #life: ConsumerLife = {
    onJoined: () => this.#recovered(),
    onAnswered: () => this.#recovery.progressed(),
    isStopped: () => this.#recovery.isStopped,
  }
  #hasStarted = false
  /** Ends the pause before the next consumer. */
  #endPause: () => void = () => undefined

  constructor(options: ReceiverOptions) {
    this.#options = options
    const { consumer, topics } = options.settings
    this.#recovery = new Recovery<BrokerErrorKind>({
      port: options.port,
      fields: { group: consumer.groupId, topics: topics.map(String) },
      classifyError,
      backoff: BACKOFF,
      check: options.check,
      onRetry: () => this.#endPause(),
      onEnd: options.onEnd,
    })
  }

  get notice(): string | undefined {
    return this.#options.source.notice
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
    await this.#options.source.letGo()
  }

  known(settlement: Settlement): void {
    this.#recovery.progressed()
    this.#recovery.known(settlement)
  }

  async #live(): Promise<void> {
    while (!this.#recovery.isStopped) {
      const error = await this.#liveOnce()
      await this.#options.source.letGo()
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
    try {
      await this.#recovery.checkOnce()
    } catch (error) {
      return error
    }
    return this.#recovery.isStopped ? undefined : this.#options.source.live(this.#life)
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
}
