import { CallTimeoutError, endsWithin, withTimeout } from '@onceward/core/adapter'
import { nameOf, type Partition } from '../../offsets.ts'
import {
  AGAIN,
  type ConsumerLife,
  type CreatePulled,
  type Fetched,
  type PulledConsumer,
  type PulledEvents,
  type RecordSource,
  type SourceOptions,
} from '../port.ts'
import { type TopicChange, TopicWatch } from '../topic-watch.ts'
import { Anew } from './anew.ts'
import { Claims } from './claims.ts'
import type { Start } from './pulled-batch.ts'
import { PulledBatches } from './pulled-batches.ts'

export interface PulledSourceOptions extends SourceOptions {
  readonly create: CreatePulled
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

/**
 * Consumers that are asked for records, one after the other.
 *
 * ```
 * connect → topics → subscribe → assigned → seek → fetch → records
 *                                   ↑                ↓
 *                                revoked         commit, every 250 ms
 * ```
 */
export class PulledSource implements RecordSource {
  readonly batches: PulledBatches
  readonly #options: PulledSourceOptions
  readonly #watch: TopicWatch
  readonly #anew: Anew
  readonly #claims: Claims
  #consumer: PulledConsumer | undefined
  /** Ends the current consumer with a reason. */
  #giveUp: (reason: unknown) => void = () => undefined
  #heardAtMs = 0
  #endLooks: () => void = () => undefined
  /** The group has started: what appears from here on is read from its beginning. */
  #hasStart: boolean
  #told = ''

  constructor(options: PulledSourceOptions) {
    const { port, settings } = options
    this.#options = options
    this.#hasStart = settings.fromBeginning
    this.batches = new PulledBatches({
      ...options,
      onFenced: () => this.#giveUp(new Error('another member has claimed a partition of this one')),
    })
    this.#anew = new Anew(port.runtime)
    this.#watch = new TopicWatch({
      runtime: port.runtime,
      logger: port.logger,
      subscriptions: settings.topics,
      isAnswered: () => this.#silentMs < LIVELY_MS && !this.batches.isHeld,
      // With offsets as identity they would be taken for those of the old topic. The next consumer's claim says so.
      onAnew: async (topic) => (this.#isFenced ? this.#giveUp(AGAIN) : this.#readAnew(topic)),
      onLooked: () => this.#claimRefused(),
      onChanged: (change) => this.#changed(change),
    })
    const { groupId } = settings.consumer
    this.#claims = new Claims({ port, groupId, topics: this.#watch })
  }

  get notice(): string | undefined {
    const { missing, denied } = this.#watch
    const parts = [
      missing.length > 0 &&
        `topics that do not exist are not consumed until they are created: ${missing.join(', ')}`,
      denied.length > 0 &&
        `topics that this client may not describe are not consumed until it may Read them: ${denied.join(', ')}`,
      this.#claims.notice,
      this.#consumer?.notice,
    ]
    return parts.filter((part) => typeof part === 'string').join('; ') || undefined
  }

  async live(life: ConsumerLife): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<unknown>()
    this.#giveUp = resolve
    const consumer = this.#options.create(this.#options, this.#eventsOf(life))
    this.#consumer = consumer
    try {
      await this.#start(consumer)
      if (life.isStopped()) return undefined
      void this.#fetch(consumer, life)
      return await promise
    } catch (error) {
      return error
    } finally {
      this.#endLooks()
      this.#watch.end()
      this.#claims.clear()
      this.batches.left()
    }
  }

  async letGo(): Promise<void> {
    const consumer = this.#consumer
    this.#consumer = undefined
    this.#giveUp(undefined)
    if (consumer === undefined) return
    await endsWithin(this.#options.port.runtime, consumer.close(), GOODBYE_MS)
  }

  async #start(consumer: PulledConsumer): Promise<void> {
    const { port, settings } = this.#options
    const within = <Answer>(asking: Promise<Answer>): Promise<Answer> =>
      withTimeout(port.runtime, asking, { call: 'the cluster', budgetMs: CALL_MS })
    this.batches.attach(consumer)
    await within(consumer.connect())
    const topics = await within(this.#watch.begin(consumer.topicIds))
    this.batches.clusterId = this.#watch.clusterId
    this.#tellDenied()
    this.#hasStart ||= await within(consumer.startAtEnds(topics))
    this.#heard()
    const { rebalanceTimeout = 60_000, sessionTimeout } = settings.consumer
    // A join waits for every other member, so a healthy consumer may be silent for that long.
    this.#look(Math.max(rebalanceTimeout, sessionTimeout) + sessionTimeout)
    await consumer.subscribe(topics)
  }

  #eventsOf(life: ConsumerLife): PulledEvents {
    const { batches } = this
    return {
      onAssigned: async (partitions, isNewMember) => {
        const consumer = this.#consumer
        if (consumer === undefined) return
        this.#heard()
        if (isNewMember) {
          this.#claims.clear()
          batches.lost(batches.owned)
        }
        try {
          await this.#begin(consumer, partitions)
          if (consumer === this.#consumer) life.onJoined()
        } catch (error) {
          if (consumer === this.#consumer) this.#giveUp(error)
        }
      },
      onRevoked: (partitions) => {
        this.#claims.forget(partitions)
        return batches.revoked(partitions)
      },
      onLost: (partitions) => {
        this.#claims.forget(partitions)
        batches.lost(partitions)
      },
      onHeld: (isHeld) => batches.held(isHeld),
      onAnswered: () => {
        this.#heard()
        batches.answered()
        life.onAnswered()
      },
      onEnded: (error) => this.#giveUp(error),
    }
  }

  /** Reads partitions that came. */
  async #begin(consumer: PulledConsumer, partitions: readonly Partition[]): Promise<void> {
    const starts = await this.#startsOf(consumer, partitions)
    if (consumer !== this.#consumer) return
    await consumer.seek(starts)
    if (consumer !== this.#consumer) return
    consumer.pause(partitions.filter((each) => this.#claims.isRefused(each)))
    this.#options.onJoined([...new Set(partitions.map(({ topic }) => topic))])
    this.batches.assigned(starts)
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
    this.#giveUp(AGAIN)
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
    const consumer = this.#consumer
    const refused = this.#claims.refused.filter((each) => this.batches.isIdle(each))
    if (consumer === undefined || refused.length === 0) return
    // The claim fences the one before.
    await this.batches.revoked(refused)
    const found = await this.#startsOf(consumer, refused)
    // Others may have gone meanwhile.
    const starts = found.filter((each) => this.#claims.isRefused(each))
    if (consumer !== this.#consumer || starts.length === 0) return
    await consumer.seek(starts)
    this.batches.assigned(starts)
    this.#claims.accepted(starts)
  }

  /**
   * Where offsets are left out, compaction or a transaction has left them out, or the client reads on at the oldest record
   * because retention has deleted those before. Those that come again may be others, in a log that lost its end.
   */
  async #refuseGaps(consumer: PulledConsumer, fetched: readonly Fetched[]): Promise<void> {
    const doubtful = this.batches.owned.flatMap((batch) => {
      const ofBatch = fetched.filter((each) => nameOf(each) === nameOf(batch))
      const { topic, partition, next } = batch
      const isPlain = ofBatch.every((each) => batch.isContinuedBy(each))
      return isPlain || batch.isRefused ? [] : [{ topic, partition, offset: next }]
    })
    const refused = await this.#claims.refuseOutside(consumer, doubtful)
    if (refused.length > 0) this.batches.refuse(refused)
  }

  /**
   * A log that is shorter than the offset of its group is read by the client at its oldest record, and new records have the
   * offsets of lost ones. The next consumer starts there: at worst, records come again.
   */
  #noteSetBack(consumer: PulledConsumer, fetched: readonly Fetched[]): void {
    const starts = this.batches.owned.flatMap((batch) => {
      const own = fetched.find((each) => nameOf(each) === nameOf(batch))
      const offset = BigInt(own?.records[0]?.message.offset ?? batch.next)
      return offset < batch.next ? [{ topic: batch.topic, partition: batch.partition, offset }] : []
    })
    if (starts.length === 0) return
    const fields = { positions: starts.map((each) => `${nameOf(each)}: ${each.offset}`) }
    const text =
      'logs are shorter than the offsets of their group; reading them from their beginning'
    this.#options.port.logger.error(fields, text)
    this.batches.lost(starts)
    // Meanwhile it fetches on: a client may see the answer with a fetch only.
    const giveUp = this.#giveUp
    consumer.commit(starts).then(() => giveUp(AGAIN), giveUp)
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

  async #fetch(consumer: PulledConsumer, life: ConsumerLife): Promise<void> {
    try {
      while (consumer === this.#consumer) {
        const fetched = await consumer.fetch(MOST)
        if (consumer !== this.#consumer) return
        if (fetched.length > 0) {
          this.#heard()
          life.onAnswered()
          if (!this.#isFenced) this.#noteSetBack(consumer, fetched)
          else if (await this.#areOfTheirTopics(fetched)) await this.#refuseGaps(consumer, fetched)
          else return this.#giveUp(AGAIN)
          if (consumer !== this.#consumer) return
        }
        this.batches.give(fetched)
      }
    } catch (error) {
      if (consumer === this.#consumer) this.#giveUp(error)
    }
  }

  /** A topic was created again: its offsets mean other records now. */
  async #readAnew(topic: string): Promise<void> {
    const consumer = this.#consumer
    this.#anew.add(topic)
    const partitions = this.batches.owned.filter((each) => each.topic === topic)
    if (consumer === undefined || partitions.length === 0) return
    const { logger } = this.#options.port
    const fields = { topic, partitions: partitions.map(({ partition }) => partition) }
    logger.warn(fields, 'a topic was created again; reading it from its beginning')
    const found = await this.#knownStarts(consumer, partitions)
    // Others may have gone meanwhile.
    const starts = found.filter((each) => this.batches.owns(each))
    if (consumer !== this.#consumer) return
    await consumer.seek(starts)
    this.batches.assigned(starts)
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
    this.#giveUp(AGAIN)
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
