import { ConfigurationError } from '@onceward/core'
import type { Cluster, Consumer, ConsumerCrashEvent, ConsumerHeartbeatEvent } from 'kafkajs'
import type { KafkaClient } from '../../client.ts'
import { Fences } from '../fences.ts'
import { AGAIN, type ConsumerLife, type RecordSource, type SourceOptions } from '../port.ts'
import { sharedGroup } from '../shared-group.ts'
import { hideAborted } from './aborted.ts'
import { connect, disconnect } from './connect.ts'
import { Membership, withCluster } from './group.ts'
import { outOfRangeLog } from './out-of-range.ts'
import { PartitionBatches } from './partition-batches.ts'
import { Subscription } from './subscription.ts'
import { Watchdog } from './watchdog.ts'

export interface KafkajsSourceOptions extends SourceOptions {
  readonly kafka: Pick<KafkaClient, 'consumer'>
  readonly batches?: PartitionBatches
}

/** A healthy consumer fetches or sends a heartbeat at least this often. */
const LIVELY_MS = 2_000

/**
 * Consumers of kafkajs, one after the other.
 *
 * ```
 * connect → subscribe → run → joined … crash → disconnect
 * ```
 *
 * kafkajs restarts a consumer after some crashes and ends it for good after others, and `run()` resolves
 * in both cases (brokers.md K5, K24). Here every crash is followed by a new consumer, after a pause.
 */
export class KafkajsSource implements RecordSource {
  readonly batches: PartitionBatches
  readonly #options: KafkajsSourceOptions
  #consumer: Consumer | undefined
  #cluster: (() => Cluster | undefined) | undefined
  /** Requests of the current consumer, from its connection on. Resolves when it has joined its group, or will not. */
  #joining: Promise<unknown> = Promise.resolve()
  readonly #subscription: Subscription
  readonly #watchdog: Watchdog
  /** Ends the current consumer with a reason. */
  #giveUp: (reason: unknown) => void = () => undefined
  readonly #membership: Membership

  constructor(options: KafkajsSourceOptions) {
    this.#options = options
    const { port, settings } = options
    const fences = settings.identity === 'offsets' ? this.#fences() : undefined
    const batches = options.batches ?? new PartitionBatches({ ...options, fences })
    this.batches = batches
    this.#membership = new Membership(settings.consumer.groupId)
    this.#watchdog = new Watchdog(port.runtime, settings.consumer)
    this.#subscription = new Subscription({
      ...{ port, settings, batches, fields: this.#fields },
      isAnswered: () => this.#watchdog.silentMs < LIVELY_MS && !batches.isHeld,
      member: () => this.#membership.current,
      onChanged: () => this.#giveUp(AGAIN),
    })
  }

  #fences(): Fences {
    const { port, settings } = this.#options
    return new Fences({
      ...{ port, groupId: settings.consumer.groupId },
      oldest: ({ topic, partition }) => this.#oldest(topic, partition),
      seek: ({ topic, partition }, offset) =>
        this.#consumer?.seek({ topic, partition, offset: String(offset) }),
      onOver: (error) => this.#giveUp(error),
    })
  }

  async #oldest(topic: string, partition: number): Promise<number> {
    const asked = [{ topic, partitions: [{ partition }], fromBeginning: true as const }]
    const [found] = (await this.#cluster?.()?.fetchTopicsOffset(asked)) ?? []
    return Number(found?.partitions[0]?.offset ?? 0)
  }

  get notice(): string | undefined {
    return this.#subscription.notice
  }

  async live(life: ConsumerLife): Promise<unknown> {
    const error = await this.#live(life)
    this.batches.left()
    return error
  }

  async #live(life: ConsumerLife): Promise<unknown> {
    const { kafka, port, settings } = this.#options
    const joining = Promise.withResolvers<unknown>()
    try {
      const { config, cluster } = withCluster(settings.consumer, port.settings.consumer, {
        onStrangers: (strangers) => this.#refuse(strangers),
        onDenied: (denied) => this.#subscription.unassigned(denied),
      })
      const consumer = kafka.consumer(config)
      this.#consumer = consumer
      this.#cluster = cluster
      const givenUp = this.#listen(consumer, life)
      const eachBatch = this.batches.attach(consumer)
      const isWanted = (): boolean => this.#consumer === consumer
      await connect(consumer, { runtime: port.runtime, limitMs: this.#watchdog.limitMs, isWanted })
      if (!isWanted()) return undefined
      this.#joining = joining.promise
      const { rackId } = config
      hideAborted(cluster(), outOfRangeLog(port.logger, this.#fields, rackId))
      await this.#subscription.begin(consumer, cluster())
      await this.#membership.leaveBefore(cluster())
      if (life.isStopped()) return undefined
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
  #listen(consumer: Consumer, life: ConsumerLife): Promise<unknown> {
    const { batches } = this
    const { CRASH, FETCH, GROUP_JOIN, HEARTBEAT, REBALANCING } = consumer.events
    const { promise, resolve } = Promise.withResolvers<unknown>()
    this.#giveUp = resolve
    const isCurrent = (): boolean => this.#consumer === consumer
    const answered = (beat?: ConsumerHeartbeatEvent['payload']): void => {
      if (!isCurrent()) return
      if (beat !== undefined) this.#membership.heard(beat)
      this.#watchdog.heard({ generation: beat?.groupGenerationId, isHeld: batches.isHeld })
      batches.answered()
      life.onAnswered()
    }
    consumer.on(GROUP_JOIN, ({ payload }) => {
      if (!isCurrent()) return
      this.#membership.joined(payload)
      this.#options.onJoined(Object.keys(payload.memberAssignment))
      batches.joined(payload)
      this.#watchdog.joined()
      life.onJoined()
    })
    consumer.on(REBALANCING, () => {
      if (isCurrent()) batches.rebalancing()
    })
    consumer.on(FETCH, () => answered())
    consumer.on(HEARTBEAT, ({ payload }) => answered(payload))
    consumer.on(CRASH, ({ payload }: ConsumerCrashEvent) => resolve(payload.error))
    return promise
  }

  async letGo(): Promise<void> {
    const [consumer, joining] = [this.#consumer, this.#joining]
    this.#consumer = undefined
    this.#joining = Promise.resolve()
    this.#subscription.end()
    this.#watchdog.end()
    this.#membership.ended()
    if (consumer === undefined) return
    await disconnect(consumer, joining, this.#options.port.runtime)
  }

  get #fields(): Readonly<Record<string, unknown>> {
    const { consumer, topics } = this.#options.settings
    return { group: consumer.groupId, topics: topics.map(String) }
  }
}
