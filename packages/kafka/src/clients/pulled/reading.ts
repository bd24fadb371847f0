import { nameOf, type Partition } from '../../offsets.ts'
import type { Fetched, PulledConsumer, PulledOptions } from '../port.ts'
import { type TopicChange, TopicWatch } from '../topic-watch.ts'
import { Anew } from './anew.ts'
import { Claims } from './claims.ts'
import type { Start } from './pulled-batch.ts'
import type { PulledBatches } from './pulled-batches.ts'

/** Not a failure: the next consumer subscribes to other topics, or reads from elsewhere. */
export const AGAIN: unique symbol = Symbol('again')

export interface ReadingOptions extends PulledOptions {
  readonly batches: PulledBatches
  /** Undefined between two consumers. */
  readonly current: () => PulledConsumer | undefined
  /** Whether the broker answers the consumer. */
  readonly isAnswered: () => boolean
  /** The consumer has partitions of these topics. */
  readonly onJoined: (topics: readonly string[]) => void
  /** The current consumer cannot go on: an error, or {@link AGAIN}. */
  readonly onOver: (reason: unknown) => void
}

/** Which topics are consumed, where their partitions are read, and whether what was fetched is what was expected. */
export class Reading {
  readonly #options: ReadingOptions
  readonly #batches: PulledBatches
  readonly #watch: TopicWatch
  readonly #anew: Anew
  readonly #claims: Claims
  #told = ''

  constructor(options: ReadingOptions) {
    const { batches, isAnswered, onOver, port, settings } = options
    this.#options = options
    this.#batches = batches
    this.#anew = new Anew(port.runtime)
    this.#watch = new TopicWatch({
      ...{ runtime: port.runtime, logger: port.logger, subscriptions: settings.topics },
      isAnswered: () => isAnswered() && !batches.isHeld,
      // With offsets as identity they would be taken for those of the old topic. The next consumer's claim says so.
      onAnew: async (topic) => (this.#isFenced ? onOver(AGAIN) : this.#readAnew(topic)),
      onLooked: () => this.#claimRefused(),
      onChanged: (change) => this.#changed(change),
    })
    this.#claims = new Claims({ port, groupId: settings.consumer.groupId, topics: this.#watch })
  }

  /** What is not consumed although the consumer runs. */
  get notice(): string | undefined {
    const { missing, denied } = this.#watch
    const parts = [
      missing.length > 0 &&
        `topics that do not exist are not consumed until they are created: ${missing.join(', ')}`,
      denied.length > 0 &&
        `topics that this client may not describe are not consumed until it may Read them: ${denied.join(', ')}`,
      this.#claims.notice,
      this.#options.current()?.notice,
    ]
    return parts.filter((part) => typeof part === 'string').join('; ') || undefined
  }

  /** Looks at the topics, and answers those to subscribe to. */
  async topicsOf(consumer: PulledConsumer): Promise<readonly string[]> {
    const topics = await this.#watch.begin(consumer.topicIds)
    this.#batches.clusterId = this.#watch.clusterId
    this.#tellDenied()
    return topics
  }

  /** Reads partitions that came. */
  async begin(consumer: PulledConsumer, partitions: readonly Partition[]): Promise<void> {
    const starts = await this.#startsOf(consumer, partitions)
    if (!this.#isCurrent(consumer)) return
    await consumer.seek(starts)
    if (!this.#isCurrent(consumer)) return
    consumer.pause(partitions.filter((each) => this.#claims.isRefused(each)))
    this.#options.onJoined([...new Set(partitions.map(({ topic }) => topic))])
    this.#batches.assigned(starts)
  }

  /** They went to other members. */
  forget(partitions: readonly Partition[]): void {
    this.#claims.forget(partitions)
  }

  /** Takes what was fetched. Answers whether the consumer may fetch on. */
  async take(consumer: PulledConsumer, fetched: readonly Fetched[]): Promise<boolean> {
    if (fetched.length > 0) {
      if (!this.#isFenced) this.#noteSetBack(consumer, fetched)
      else if (await this.#areOfTheirTopics(fetched)) await this.#refuseGaps(consumer, fetched)
      else {
        this.#options.onOver(AGAIN)
        return false
      }
      if (!this.#isCurrent(consumer)) return false
    }
    this.#batches.give(fetched)
    return true
  }

  /** The member or its consumer is another one. */
  clear(): void {
    this.#claims.clear()
    this.#batches.lost(this.#batches.owned)
  }

  end(): void {
    this.#watch.end()
    this.#claims.clear()
    this.#batches.left()
  }

  #isCurrent(consumer: PulledConsumer | undefined): boolean {
    return consumer === this.#options.current()
  }

  get #isFenced(): boolean {
    return this.#options.settings.identity === 'offsets'
  }

  /** Where partitions are read. Those that are refused are left out. */
  async #startsOf(
    consumer: PulledConsumer,
    partitions: readonly Partition[],
  ): Promise<readonly Start[]> {
    const known = await this.#knownStarts(consumer, partitions)
    if (!this.#isFenced) return known
    // Otherwise the offsets of an old topic would be compared with the log of the new one.
    if (await this.#areOfTheirTopics(partitions)) return this.#claims.claim(consumer, known)
    this.#options.onOver(AGAIN)
    return []
  }

  /**
   * The place of a record is its identity, so it has to be of the topic that was claimed. With a client that does not tell
   * the topic's id with its records, the topic is looked at after each fetch: if it has the same id then, so had the fetch.
   */
  #areOfTheirTopics(fetched: readonly Pick<Fetched, 'topic' | 'topicId'>[]): Promise<boolean> {
    return this.#watch.areSame(new Map(fetched.map(({ topic, topicId }) => [topic, topicId])))
  }

  /** An operator may have said where refused partitions start. */
  async #claimRefused(): Promise<void> {
    const consumer = this.#options.current()
    const refused = this.#claims.refused.filter((each) => this.#batches.isIdle(each))
    if (consumer === undefined || refused.length === 0) return
    // The claim fences the one before.
    await this.#batches.revoked(refused)
    const found = await this.#startsOf(consumer, refused)
    // Others may have gone meanwhile.
    const starts = found.filter((each) => this.#claims.isRefused(each))
    if (!this.#isCurrent(consumer) || starts.length === 0) return
    await consumer.seek(starts)
    this.#batches.assigned(starts)
    this.#claims.accepted(starts)
  }

  /**
   * Where offsets are left out, compaction or a transaction has left them out, or the client reads on at the oldest record
   * because retention has deleted those before. Those that come again may be others, in a log that lost its end.
   */
  async #refuseGaps(consumer: PulledConsumer, fetched: readonly Fetched[]): Promise<void> {
    const doubtful = this.#batches.owned.flatMap((batch) => {
      const ofBatch = fetched.filter((each) => nameOf(each) === nameOf(batch))
      const { topic, partition, next } = batch
      const isPlain = ofBatch.every((each) => batch.isContinuedBy(each))
      return isPlain || batch.isRefused ? [] : [{ topic, partition, offset: next }]
    })
    const refused = await this.#claims.refuseOutside(consumer, doubtful)
    if (refused.length > 0) this.#batches.refuse(refused)
  }

  /**
   * A log that is shorter than the offset of its group is read by the client at its oldest record, and new records have the
   * offsets of lost ones. The next consumer starts there: at worst, records come again.
   */
  #noteSetBack(consumer: PulledConsumer, fetched: readonly Fetched[]): void {
    const starts = this.#batches.owned.flatMap((batch) => {
      const own = fetched.find((each) => nameOf(each) === nameOf(batch))
      const offset = BigInt(own?.records[0]?.message.offset ?? batch.next)
      return offset < batch.next ? [{ topic: batch.topic, partition: batch.partition, offset }] : []
    })
    if (starts.length === 0) return
    const fields = { positions: starts.map((each) => `${nameOf(each)}: ${each.offset}`) }
    const text =
      'logs are shorter than the offsets of their group; reading them from their beginning'
    this.#options.port.logger.error(fields, text)
    this.#batches.lost(starts)
    // Meanwhile it fetches on: a client may see the answer with a fetch only.
    const { onOver } = this.#options
    consumer.commit(starts).then(() => onOver(AGAIN), onOver)
  }

  /** Where the group is, or at their beginning. */
  async #knownStarts(
    consumer: PulledConsumer,
    partitions: readonly Partition[],
  ): Promise<readonly Start[]> {
    if (partitions.length === 0) return []
    const known = new Map<string, Start>()
    const again = partitions.filter((each) => !this.#anew.isToRead(each))
    for (const position of await consumer.committed(again)) {
      known.set(nameOf(position), { ...position, isCommitted: true })
    }
    const missing = partitions.filter((each) => !known.has(nameOf(each)))
    const oldest = missing.length === 0 ? [] : await consumer.oldest(missing)
    for (const position of oldest) {
      known.set(nameOf(position), { ...position, isCommitted: false })
      this.#anew.wasRead(position)
    }
    return [...known.values()]
  }

  /** A topic was created again: its offsets mean other records now. */
  async #readAnew(topic: string): Promise<void> {
    const consumer = this.#options.current()
    this.#anew.add(topic)
    const partitions = this.#batches.owned.filter((each) => each.topic === topic)
    if (consumer === undefined || partitions.length === 0) return
    const { logger } = this.#options.port
    const fields = { topic, partitions: partitions.map(({ partition }) => partition) }
    logger.warn(fields, 'a topic was created again; reading it from its beginning')
    const found = await this.#knownStarts(consumer, partitions)
    // Others may have gone meanwhile.
    const starts = found.filter((each) => this.#batches.owns(each))
    if (!this.#isCurrent(consumer)) return
    await consumer.seek(starts)
    this.#batches.assigned(starts)
    // An offset of the old topic may have been committed to the new one, and the next owner would skip what is below it.
    await consumer.commit(starts)
  }

  #changed({ appeared, vanished }: TopicChange): void {
    const { logger } = this.#options.port
    if (appeared.length > 0) logger.info({ appeared }, 'subscribing to more topics')
    if (vanished.length > 0) {
      const fix = 'remove these topics from `topics`, or create them again'
      logger.warn({ vanished, fix }, 'topics were deleted; the other topics are still consumed')
    }
    this.#options.onOver(AGAIN)
  }

  /** Logs denied topics once. Consumers that follow each other find the same ones. */
  #tellDenied(): void {
    const { denied } = this.#watch
    const text = denied.join(', ')
    if (text !== '' && text !== this.#told) {
      const fix = 'allow Read on these topics'
      this.#options.port.logger.error(
        { denied, fix },
        'topics are not consumed, because this client may not describe them',
      )
    }
    this.#told = text
  }
}
