import { ConfigurationError, OncewardError, type Settlement } from '@onceward/core'
import {
  type ConsumptionEnd,
  type GuardPort,
  isFatal,
  type Outage,
  Recovery,
} from '@onceward/core/adapter'
import type { Cluster, Consumer, ConsumerCrashEvent, ConsumerHeartbeatEvent } from 'kafkajs'
import type { KafkaClient } from './client.ts'
import { hideAborted } from './clients/kafkajs/aborted.ts'
import { connect, disconnect } from './clients/kafkajs/connect.ts'
import { Membership, withCluster } from './clients/kafkajs/group.ts'
import { outOfRangeLog } from './clients/kafkajs/out-of-range.ts'
import type { PartitionBatches } from './clients/kafkajs/partition-batches.ts'
import { Subscription } from './clients/kafkajs/subscription.ts'
import { Unreadable } from './clients/kafkajs/unreadable.ts'
import { Watchdog } from './clients/kafkajs/watchdog.ts'
import { sharedGroup } from './doctor.ts'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'
import type { ConsumerSettings } from './options.ts'

export interface ReceiverOptions {
  readonly port: GuardPort
  readonly kafka: Pick<KafkaClient, 'consumer'>
  readonly settings: ConsumerSettings
  readonly batches: PartitionBatches
  /** The consumer joined its group, and has partitions of these topics. */
  readonly onJoined: (topics: readonly string[]) => void
  /** The checks before the first consumer. */
  readonly check: () => Promise<void>
  readonly onEnd: (end: ConsumptionEnd) => void
}

/** Not a failure: the consumer is replaced by one that subscribes to more topics. */
const RESUBSCRIBE = Symbol('resubscribe')
/** A healthy consumer fetches or sends a heartbeat at least this often. */
const LIVELY_MS = 2_000

const JOINING: Outage = { state: 'recovering', reason: 'joining the group' }

/**
 * Runs one kafkajs consumer after the other, without end.
 *
 * ```
 * check → connect → subscribe → run → joined … crash ─┐
 *   ↑                                                 │
 *   └──── pause ←── disconnect the consumer ←─────────┘
 * ```
 *
 * kafkajs restarts a consumer after some crashes and ends it for good after others, and `run()` resolves
 * in both cases (brokers.md K5, K24). Here every crash is followed by a new consumer, after a pause.
 */
export class Receiver {
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  readonly #started = Promise.withResolvers<void>()
  #consumer: Consumer | undefined
  /** Requests of the current consumer, from its connection on. Resolves when it has joined its group, or will not. */
  #joining: Promise<unknown> = Promise.resolve()
  readonly #subscription: Subscription
  readonly #watchdog: Watchdog
  readonly #unreadable: Unreadable
  /** Ends the current consumer with a reason. */
  #giveUp: (reason: unknown) => void = () => undefined
  readonly #membership: Membership
  #hasStarted = false
  /** Ends the pause before the next consumer. */
  #endPause: () => void = () => undefined

  constructor(options: ReceiverOptions) {
    this.#options = options
    const { port, settings } = options
    this.#recovery = new Recovery<BrokerErrorKind>({
      port,
      fields: this.#fields,
      classifyError,
      backoff: BACKOFF,
      check: options.check,
      onRetry: () => this.#endPause(),
      onEnd: options.onEnd,
    })
    this.#membership = new Membership(settings.consumer.groupId)
    this.#watchdog = new Watchdog(port.runtime, settings.consumer)
    this.#unreadable = new Unreadable({ port, settings, fields: this.#fields })
    this.#subscription = new Subscription({
      ...{ port, settings, batches: options.batches, fields: this.#fields },
      isAnswered: () => this.#watchdog.silentMs < LIVELY_MS && !options.batches.isHeld,
      member: () => this.#membership.current,
      onChanged: () => this.#giveUp(RESUBSCRIBE),
    })
  }

  get notice(): string | undefined {
    const notices = [this.#subscription.notice, this.#unreadable.notice]
    return notices.filter((notice) => notice !== undefined).join('; ') || undefined
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

  /** Leaves the group, in bounded time: kafkajs finishes the rest later. Never rejects. */
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
      this.#unreadable.ended(error, this.#options.batches.reached)
      this.#options.batches.left()
      await this.#letGo()
      if (this.#recovery.isStopped) break
      if (error === RESUBSCRIBE) continue
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
    const { batches, kafka, port, settings } = this.#options
    const joining = Promise.withResolvers<unknown>()
    try {
      await this.#recovery.checkOnce()
      if (this.#recovery.isStopped) return undefined
      const { config, cluster } = withCluster(settings.consumer, port.settings.consumer, {
        onStrangers: (strangers) => this.#refuse(strangers),
        onDenied: (denied) => this.#subscription.unassigned(denied),
      })
      const consumer = kafka.consumer(config)
      this.#consumer = consumer
      const givenUp = this.#listen(consumer, cluster)
      const eachBatch = batches.attach(consumer)
      const isWanted = (): boolean => this.#consumer === consumer
      await connect(consumer, { runtime: port.runtime, limitMs: this.#watchdog.limitMs, isWanted })
      if (!isWanted()) return undefined
      this.#joining = joining.promise
      const { rackId } = config
      hideAborted(cluster(), outOfRangeLog(port.logger, this.#fields, rackId))
      await this.#subscription.begin(consumer, cluster())
      await this.#membership.leaveBefore(cluster())
      if (this.#recovery.isStopped) return undefined
      this.#watchdog.begin((silence) => this.#giveUp(silence))
      const running = consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        partitionsConsumedConcurrently: settings.partitionsConsumedConcurrently,
        eachBatch,
      })
      joining.resolve(running.catch(() => undefined))
      return await Promise.race([running.then(() => givenUp), givenUp])
    } catch (error) {
      return error
    } finally {
      joining.resolve(undefined)
    }
  }

  /**
   * Two consumers that start at the same time find the group empty, and only its leader learns of the other one. The
   * broker lets the first members of a group join together (`group.initial.rebalance.delay.ms`, 3 s by default).
   */
  #refuse(strangers: readonly string[]): void {
    const { port, settings } = this.#options
    if (this.#membership.hasOwned) return
    throw new ConfigurationError(sharedGroup(settings, port.settings.consumer, strangers))
  }

  /** Resolves when the consumer must be replaced or stopped. */
  #listen(consumer: Consumer, cluster: () => Cluster | undefined): Promise<unknown> {
    const { batches, onJoined } = this.#options
    const { CRASH, FETCH, GROUP_JOIN, HEARTBEAT, REBALANCING } = consumer.events
    const { promise, resolve } = Promise.withResolvers<unknown>()
    this.#giveUp = resolve
    const isCurrent = (): boolean => this.#consumer === consumer
    const answered = (beat?: ConsumerHeartbeatEvent['payload']): void => {
      if (!isCurrent()) return
      if (beat !== undefined) this.#membership.heard(beat)
      this.#watchdog.heard({ generation: beat?.groupGenerationId, isHeld: batches.isHeld })
      batches.answered()
      this.#recovery.progressed()
    }
    consumer.on(GROUP_JOIN, ({ payload }) => {
      if (!isCurrent()) return
      this.#membership.joined(payload)
      onJoined(Object.keys(payload.memberAssignment))
      batches.joined(payload)
      this.#unreadable.joined(consumer, cluster(), payload.memberAssignment)
      this.#watchdog.joined()
      this.#recovered()
    })
    consumer.on(REBALANCING, () => {
      if (isCurrent()) batches.rebalancing()
    })
    consumer.on(FETCH, () => answered())
    consumer.on(HEARTBEAT, ({ payload }) => answered(payload))
    consumer.on(CRASH, ({ payload }: ConsumerCrashEvent) => resolve(payload.error))
    return promise
  }

  async #letGo(): Promise<void> {
    const [consumer, joining] = [this.#consumer, this.#joining]
    this.#consumer = undefined
    this.#joining = Promise.resolve()
    this.#subscription.end()
    this.#watchdog.end()
    this.#unreadable.end()
    this.#membership.ended()
    if (consumer === undefined) return
    await disconnect(consumer, joining, this.#options.port.runtime)
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

  get #fields(): Readonly<Record<string, unknown>> {
    const { consumer, topics } = this.#options.settings
    return { group: consumer.groupId, topics: topics.map(String) }
  }
}
