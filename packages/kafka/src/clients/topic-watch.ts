import type { Logger, Runtime } from '@onceward/core'
import type { Cluster } from 'kafkajs'
import { classifyError } from '../errors.ts'
import { matches } from '../options.ts'
import { topicIds } from './topic-ids.ts'

/** kafkajs checks its topics only every five minutes, and then only their number of partitions. */
const LOOK_MS = 3_000

export interface TopicWatchOptions {
  readonly runtime: Runtime
  readonly logger: Logger
  readonly subscriptions: readonly (string | RegExp)[]
  /** Whether the broker answers the consumer. A broker that is down gets no requests, see {@link Commits}. */
  readonly isAnswered: () => boolean
  /** The topic was deleted and created again: its offsets mean other records now. */
  readonly onAnew: (topic: string) => Promise<void>
  /** Another topic matches a pattern: kafkajs finds it only when it subscribes again (brokers.md K18). */
  readonly onAppeared: (topics: readonly string[]) => void
}

/** Detects topics that were created again or appeared while others are consumed. */
export class TopicWatch {
  readonly #options: TopicWatchOptions
  /** Ids as last seen; kept when a new consumer follows a crash. */
  #ids: ReadonlyMap<string, string> = new Map()
  #topics: readonly string[] = []
  #clusterId: string | undefined
  #cancel: (() => void) | undefined

  constructor(options: TopicWatchOptions) {
    this.#options = options
  }

  /** Undefined before the first answer, and if the broker is too old. */
  get clusterId(): string | undefined {
    return this.#clusterId
  }

  /**
   * Called after the consumer has subscribed and before it reads: the group has no offsets of later topics.
   *
   * Rejects when the cluster does not tell its id, because the event keys of positions contain it.
   */
  async begin(cluster: Cluster): Promise<void> {
    this.end()
    this.#topics = await this.#subscribed(cluster)
    const answer = await topicIds(cluster, this.#topics)
    this.#clusterId ??= answer?.clusterId
    this.#ids = answer?.ids ?? new Map()
    this.#again(cluster)
  }

  end(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #again(cluster: Cluster): void {
    const { runtime } = this.#options
    const cancel = runtime.setTimer(
      () => {
        void this.#look(cluster).then(() => {
          if (this.#cancel === cancel) this.#again(cluster)
        })
      },
      LOOK_MS,
      { keepAlive: false },
    )
    this.#cancel = cancel
  }

  async #look(cluster: Cluster): Promise<void> {
    const { isAnswered, onAnew, onAppeared } = this.#options
    if (!isAnswered()) return
    try {
      const topics = await this.#subscribed(cluster)
      const appeared = topics.filter((topic) => !this.#topics.includes(topic))
      if (appeared.length > 0) onAppeared(appeared)
      const answer = await topicIds(cluster, this.#topics)
      for (const [topic, id] of answer?.ids ?? []) {
        const before = this.#ids.get(topic)
        if (before !== undefined && before !== id) await onAnew(topic)
        this.#ids = new Map([...this.#ids, [topic, id]])
      }
    } catch (error) {
      // The consumer notices a broker that is down by itself.
      const fields = { reason: classifyError(error).text }
      this.#options.logger.debug(fields, 'the topics could not be looked at')
    }
  }

  async #subscribed(cluster: Cluster): Promise<readonly string[]> {
    const { subscriptions } = this.#options
    const named = subscriptions.filter((topic) => typeof topic === 'string')
    if (named.length === subscriptions.length) return named
    const { topicMetadata } = await cluster.metadata()
    const all = topicMetadata.map(({ topic }) => topic)
    return all.filter((topic) => subscriptions.some((one) => matches(one, topic)))
  }
}
