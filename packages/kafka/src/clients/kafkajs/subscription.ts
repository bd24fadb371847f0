import { type GuardPort, when } from '@onceward/core/adapter'
import type { Cluster, Consumer } from 'kafkajs'
import type { ConsumerSettings } from '../../options.ts'
import { type TopicChange, TopicWatch } from '../topic-watch.ts'
import type { PartitionBatches } from './partition-batches.ts'
import { commitAs, type GroupMembership, startAtEnds } from './start-offsets.ts'
import { lookOf } from './topic-ids.ts'

/**
 * Milliseconds after a topic was created again in which a partition that comes is read from its beginning, too. Its last
 * owner may have left before it looked, and the group may have an offset of the old topic. No member that has not looked
 * stays in the group for so long.
 */
const ANEW_MS = 120_000

interface Anew {
  readonly untilMs: number
  /** Partitions that this member has read from their beginning. */
  readonly read: Set<number>
}

export interface SubscriptionOptions {
  readonly port: GuardPort
  readonly settings: ConsumerSettings
  readonly batches: PartitionBatches
  /** Names the consumer in the log. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly isAnswered: () => boolean
  /** Undefined while it is not known. */
  readonly member: () => GroupMembership | undefined
  /** The consumer must be replaced by one that subscribes to other topics. */
  readonly onChanged: () => void
}

/** The topics of a consumer: which there are, and where each is read from. */
export class Subscription {
  readonly #options: SubscriptionOptions
  readonly #watch: TopicWatch
  #consumer: Consumer | undefined
  #cluster: Cluster | undefined
  /** Topics that were logged as denied. */
  #told: readonly string[] = []
  /** Topics of other members that were logged as not assigned. */
  #toldUnassigned: readonly string[] = []
  /** Topics that were created again. */
  readonly #anew = new Map<string, Anew>()
  /** The group has started: what appears from here on is read from its beginning. */
  #hasStart: boolean

  constructor(options: SubscriptionOptions) {
    const { port, settings, isAnswered } = options
    this.#options = options
    this.#hasStart = settings.fromBeginning
    this.#watch = new TopicWatch({
      runtime: port.runtime,
      logger: port.logger,
      subscriptions: settings.topics,
      isAnswered,
      onAnew: (topic) => {
        // Its offsets would be taken for those of the old topic. The next consumer's claim says so.
        if (settings.identity === 'offsets') return this.#refuseAnew()
        const anew = { untilMs: port.runtime.monotonic() + ANEW_MS, read: new Set<number>() }
        this.#anew.set(topic, anew)
        return this.#readAnew(topic, anew)
      },
      onLooked: () => this.#readLate(),
      onChanged: (change) => this.#changed(change),
    })
  }

  /** What is not consumed although the consumer runs. */
  get notice(): string | undefined {
    const { missing, denied } = this.#watch
    const parts = [
      ...when(
        missing.length > 0,
        `topics that do not exist are not consumed until they are created: ${missing.join(', ')}`,
      ),
      ...when(
        denied.length > 0,
        `topics that this client may not describe are not consumed until it may Read them: ${denied.join(', ')}`,
      ),
    ]
    return parts.length === 0 ? undefined : parts.join('; ')
  }

  /** Subscribes a consumer that is connected and does not run yet. Rejects if none of its topics exists. */
  async begin(consumer: Consumer, cluster: Cluster | undefined): Promise<void> {
    const { batches, settings } = this.#options
    this.#consumer = consumer
    this.#cluster = cluster
    if (cluster === undefined) {
      const { topics, fromBeginning } = settings
      await consumer.subscribe({ topics: [...topics], fromBeginning })
      return
    }
    const topics = [...(await this.#watch.begin(lookOf(cluster)))]
    batches.clusterId = this.#watch.clusterId
    batches.topicIds = this.#watch.ids
    this.#tellDenied()
    await consumer.subscribe({ topics, fromBeginning: true })
    if (this.#hasStart) return
    this.#hasStart = await startAtEnds(cluster, settings.consumer.groupId, topics)
    if (!this.#hasStart) await consumer.subscribe({ topics, fromBeginning: false })
  }

  end(): void {
    this.#consumer = undefined
    this.#watch.end()
  }

  /** This member leads the group, and may not describe topics that other members subscribe to. Logs them once. */
  unassigned(topics: readonly string[]): void {
    const { port, fields } = this.#options
    const isNew = topics.some((topic) => !this.#toldUnassigned.includes(topic))
    this.#toldUnassigned = topics
    if (!isNew) return
    const fix = 'allow Describe on these topics, then restart one member of the group'
    const text =
      'topics of other members are not assigned, because this client may not describe them'
    port.logger.error({ ...fields, denied: topics, fix }, text)
  }

  /** Logs denied topics once. Consumers that follow each other find the same ones. */
  #tellDenied(): void {
    const { port, fields } = this.#options
    const { denied } = this.#watch
    const isNew = denied.some((topic) => !this.#told.includes(topic))
    this.#told = denied
    const fix = 'allow Read on these topics'
    const text = 'topics are not consumed, because this client may not describe them'
    if (isNew) port.logger.error({ ...fields, denied, fix }, text)
  }

  #changed({ appeared, vanished }: TopicChange): void {
    const { port, fields, onChanged } = this.#options
    if (appeared.length > 0) port.logger.info({ ...fields, appeared }, 'subscribing to more topics')
    if (vanished.length > 0) {
      const fix = 'remove these topics from `topics`, or create them again'
      const text = 'topics were deleted; the other topics are still consumed'
      port.logger.warn({ ...fields, vanished, fix }, text)
    }
    onChanged()
  }

  async #refuseAnew(): Promise<void> {
    this.#options.onChanged()
  }

  /** Reads a topic that was created again from its beginning: kafkajs would continue at the old position (K23). */
  async #readAnew(topic: string, { read }: Anew): Promise<void> {
    const { batches, port, fields, settings } = this.#options
    const [consumer, current] = [this.#wanted, this.#options.member()]
    const partitions = batches.ownedOf(topic).filter((partition) => !read.has(partition))
    // The members that have partitions of the topic read it again, once the group has answered them.
    if (partitions.length === 0 || current === undefined) return
    port.logger.warn(
      { ...fields, topic, partitions },
      'a topic was created again; reading it from its beginning',
    )
    const asked = partitions.map((partition) => ({ partition }))
    // Topics are watched only where there is a cluster.
    const cluster = this.#cluster as Cluster
    const lows = await cluster.fetchTopicsOffset([
      { topic, partitions: asked, fromBeginning: true },
    ])
    if (this.#wanted !== consumer) throw new Error('another consumer follows')
    const starts = (lows[0]?.partitions ?? []).map((low) => ({ topic, ...low }))
    const ends = starts.map((start) => {
      consumer.seek(start)
      return batches.rewind(start)
    })
    try {
      // An offset of the old topic may have been committed to the new one. The next owner would skip what is below it.
      // Before anything is read: the offset of what is read must come after it.
      await commitAs(cluster, { groupId: settings.consumer.groupId, ...current }, lows)
    } finally {
      for (const end of ends) end()
    }
    for (const partition of partitions) read.add(partition)
  }

  /** Reads partitions again that have come since. */
  async #readLate(): Promise<void> {
    for (const [topic, anew] of this.#anew) {
      if (this.#options.port.runtime.monotonic() < anew.untilMs) await this.#readAnew(topic, anew)
      else this.#anew.delete(topic)
    }
  }

  /** While kafkajs disconnects a consumer, another request would open a connection that nothing closes. */
  get #wanted(): Consumer {
    if (this.#consumer === undefined) throw new Error('the consumer has ended')
    return this.#consumer
  }
}
