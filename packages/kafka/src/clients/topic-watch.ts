import type { Logger } from '@onceward/core'
import type { Runtime } from '@onceward/core/ports'
import { classifyError } from '../errors.ts'
import { matches } from './matches.ts'
import type { TopicIds, TopicLook } from './port.ts'

/** Clients check their topics only every few minutes, and then only their number of partitions. */
const LOOK_MS = 3_000

export interface TopicWatchOptions {
  readonly runtime: Runtime
  readonly logger: Logger
  readonly subscriptions: readonly (string | RegExp)[]
  /** Whether the broker answers the consumer. A broker that is down gets no requests, see {@link PulledCommits}. */
  readonly isAnswered: () => boolean
  /** The topic was deleted and created again: its offsets mean other records now. */
  readonly onAnew: (topic: string) => Promise<void>
  /** After each look at topics that are all still there. */
  readonly onLooked: () => Promise<void>
  /** Topics were created or deleted: a client finds that out only when it subscribes again (brokers.md K18). */
  readonly onChanged: (change: TopicChange) => void
}

export interface TopicChange {
  readonly appeared: readonly string[]
  readonly vanished: readonly string[]
  /** Topics that this client may not describe any more. */
  readonly denied: readonly string[]
}

interface Present {
  readonly topics: readonly string[]
  readonly answer: TopicIds | undefined
}

/** Detects topics that appear, are deleted, are denied, or are created again while others are consumed. */
export class TopicWatch {
  readonly #options: TopicWatchOptions
  /** Ids of the topics as last read; kept when a new consumer follows, and while a topic is missing. */
  #ids = new Map<string, string>()
  #topics: readonly string[] = []
  #denied: readonly string[] = []
  #clusterId: string | undefined
  /** Of the consumer that is watched. */
  #look: TopicLook | undefined
  #cancel: (() => void) | undefined

  constructor(options: TopicWatchOptions) {
    this.#options = options
  }

  /** Undefined before the first answer, and if the broker is too old. */
  get clusterId(): string | undefined {
    return this.#clusterId
  }

  /** By name, as last read. */
  get ids(): ReadonlyMap<string, string> {
    return this.#ids
  }

  /** Named topics that do not exist. */
  get missing(): readonly string[] {
    const { subscriptions } = this.#options
    const named = subscriptions.filter((topic) => typeof topic === 'string')
    return named.filter((topic) => !(this.#topics.includes(topic) || this.#denied.includes(topic)))
  }

  /** Named topics that this client may not describe: one of them would end the consumer. */
  get denied(): readonly string[] {
    return this.#denied
  }

  /**
   * Returns the topics to subscribe to. Called before the consumer reads.
   *
   * Rejects if no named topic exists and may be described.
   */
  async begin(look: TopicLook): Promise<readonly string[]> {
    this.end()
    this.#look = look
    const { topics, answer } = await this.#present(look)
    this.#topics = topics
    this.#denied = [...(answer?.denied ?? [])]
    if (topics.length === 0 && this.#denied.length > 0) throw new DeniedTopicsError(this.#denied)
    if (topics.length === 0 && this.missing.length > 0) throw new MissingTopicsError(this.missing)
    this.#clusterId ??= answer?.clusterId
    // A topic that is known by another id is read again once the group is joined: see `#lookAt`.
    this.#ids = new Map([...(answer?.ids ?? []), ...this.#ids])
    this.#again(look)
    return topics
  }

  /**
   * Whether these are the topics that were looked at before. Between two looks a topic may be deleted and created again,
   * and a client reads on in the new one. Rejects if the broker does not answer.
   *
   * @param told - Ids that came with records, by topic. A topic without one is looked at.
   */
  async areSame(told: ReadonlyMap<string, string | undefined>): Promise<boolean> {
    const untold = [...told.keys()].filter((topic) => told.get(topic) === undefined)
    const answer = untold.length === 0 ? undefined : await this.#look?.(untold)
    let isSame = true
    for (const [topic, id = answer?.ids.get(topic)] of told) {
      isSame &&= id !== undefined && (await this.#compare(topic, id))
    }
    return isSame
  }

  /** Whether the topic has the id that it had before. */
  async #compare(topic: string, id: string): Promise<boolean> {
    const before = this.#ids.get(topic)
    const isAnew = before !== undefined && before !== id
    if (isAnew) await this.#options.onAnew(topic)
    this.#ids.set(topic, id)
    return !isAnew
  }

  end(): void {
    this.#look = undefined
    this.#cancel?.()
    this.#cancel = undefined
  }

  #again(look: TopicLook): void {
    const { runtime } = this.#options
    const cancel = runtime.setTimer(
      () => {
        void this.#lookAt(look).then(() => {
          if (this.#cancel === cancel) this.#again(look)
        })
      },
      LOOK_MS,
      { keepAlive: false },
    )
    this.#cancel = cancel
  }

  async #lookAt(look: TopicLook): Promise<void> {
    const { isAnswered, onChanged, onLooked } = this.#options
    if (!isAnswered()) return
    try {
      const { topics, answer } = await this.#present(look)
      const [there, subscribed] = [new Set(topics), new Set(this.#topics)]
      const appeared = topics.filter((topic) => !subscribed.has(topic))
      const gone = this.#topics.filter((topic) => !there.has(topic))
      if (appeared.length + gone.length > 0) {
        const denied = gone.filter((topic) => answer?.denied.has(topic))
        const vanished = gone.filter((topic) => !denied.includes(topic))
        // Topics that were created again are read from their beginning by the next consumer.
        onChanged({ appeared, vanished, denied })
        return
      }
      for (const [topic, id] of answer?.ids ?? []) await this.#compare(topic, id)
      await onLooked()
    } catch (error) {
      // The consumer itself notices a broker that is down.
      const fields = { reason: classifyError(error).text }
      this.#options.logger.debug(fields, 'the topics could not be looked at')
    }
  }

  /** The topics that are subscribed to and exist. For a broker too old for ids, named topics are taken to exist. */
  async #present(look: TopicLook): Promise<Present> {
    const subscribed = await this.#subscribed(look)
    // While a client disconnects, another request would open a connection that nothing closes.
    if (this.#look !== look) throw new Error('the consumer has ended')
    const answer = await look(subscribed)
    const isThere = (topic: string): boolean =>
      !(answer?.missing.has(topic) || answer?.denied.has(topic))
    return { topics: subscribed.filter(isThere), answer }
  }

  async #subscribed(look: TopicLook): Promise<readonly string[]> {
    const { subscriptions } = this.#options
    const named = subscriptions.filter((topic) => typeof topic === 'string')
    if (named.length === subscriptions.length) return named
    const all = [...((await look('all'))?.ids.keys() ?? [])]
    return all.filter((topic) => subscriptions.some((one) => matches(one, topic)))
  }
}

/** Classified as a missing topic, so it is retried. */
class MissingTopicsError extends Error {
  readonly type = 'UNKNOWN_TOPIC_OR_PARTITION'

  constructor(topics: readonly string[]) {
    super(`none of the topics exists: ${topics.join(', ')}. Create them`)
  }
}

/** Classified as a refusal, so it is retried. */
class DeniedTopicsError extends Error {
  readonly type = 'TOPIC_AUTHORIZATION_FAILED'

  constructor(topics: readonly string[]) {
    super(`this client may not describe these topics: ${topics.join(', ')}. Allow Read on them`)
  }
}
