import { ConfigurationError } from '@onceward/core'
import type { GuardPort } from '@onceward/core/adapter'
import type { Cluster, Consumer } from 'kafkajs'
import { codecAdvice, deniesTopic, missingCodecIn } from '../../errors.ts'
import { nameOf, type Partition } from '../../offsets.ts'
import type { ConsumerSettings } from '../../options.ts'
import { nextOffset } from './start-offsets.ts'

/** How often it is checked whether a codec was registered. */
const CHECK_MS = 3_000
/** The default of kafkajs. */
const MAX_BYTES = 1_048_576
const READ_COMMITTED = 1

/** Methods of kafkajs' cluster and broker that its types leave out. */
interface Internals {
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, number[]>
  findBroker(node: {
    readonly nodeId: string
  }): Promise<{ fetch(request: object): Promise<unknown> }>
}

export interface UnreadableOptions {
  readonly port: Pick<GuardPort, 'runtime' | 'logger'>
  readonly settings: ConsumerSettings
  /** Names the consumer in the log. */
  readonly fields: Readonly<Record<string, unknown>>
}

/**
 * Keeps partitions apart whose next records cannot be read: kafkajs cannot decompress them, or Kafka does not let this
 * client read their topic.
 *
 * kafkajs fetches all partitions at once, so one of them ends the consumer and the error does not say which. So the next
 * consumer starts with every partition paused. Each partition is read alone, and resumed if that succeeds. The others are
 * tried again until a codec is registered, or the client may read their topic.
 */
export class Unreadable {
  readonly #options: UnreadableOptions
  /** Partitions that are paused; with an error if it is known that they cannot be read. */
  #held = new Map<string, { readonly partition: Partition; readonly error: Error | undefined }>()
  #isSuspected = false
  /** How far partitions had been fetched when the consumer ended, which may be further than the committed offset. */
  #reached: ReadonlyMap<string, string> = new Map()
  #endChecks: () => void = () => undefined

  constructor(options: UnreadableOptions) {
    this.#options = options
  }

  /** The partitions that are not consumed. */
  get notice(): string | undefined {
    const texts = new Set([...this.#held.values()].flatMap(({ error }) => error?.message ?? []))
    return texts.size === 0 ? undefined : [...texts].join(' ')
  }

  /** A consumer ended by this error, and had fetched its partitions up to these offsets. */
  ended(error: unknown, reached: ReadonlyMap<string, string>): void {
    if (!isUnreadable(error)) return
    this.#isSuspected = true
    this.#reached = reached
  }

  /** Ends the checks of a consumer. */
  end(): void {
    this.#endChecks()
  }

  /** To be called in the moment of the join, before kafkajs fetches. */
  joined(
    consumer: Pick<Consumer, 'pause' | 'resume'>,
    cluster: Cluster | undefined,
    assigned: Readonly<Record<string, readonly number[]>>,
  ): void {
    if (!this.#isSuspected || cluster === undefined) return
    this.#endChecks()
    const partitions = Object.entries(assigned).flatMap(([topic, numbers]) =>
      numbers.map((partition) => ({ topic, partition })),
    )
    const before = this.#held
    this.#held = new Map(
      partitions.map((partition) => [
        nameOf(partition),
        { partition, error: before.get(nameOf(partition))?.error },
      ]),
    )
    for (const { topic, partition } of partitions) {
      consumer.pause([{ topic, partitions: [partition] }])
    }
    // kafkajs keeps pauses over a rebalance: a partition that comes back later would stay paused.
    for (const [name, { partition: gone }] of before) {
      if (this.#held.has(name)) continue
      consumer.resume([{ topic: gone.topic, partitions: [gone.partition] }])
    }
    this.#checkUntilReadable(consumer, cluster)
  }

  #checkUntilReadable(consumer: Pick<Consumer, 'resume'>, cluster: Cluster): void {
    const { runtime } = this.#options.port
    let isOver = false
    let cancel = (): void => undefined
    // While kafkajs disconnects, another request would open a connection that nothing closes.
    const assertWanted = (): void => {
      if (isOver) throw new Error('the consumer has ended')
    }
    const check = async (): Promise<void> => {
      for (const { partition, error } of [...this.#held.values()]) {
        const isReadable = await this.#isReadable(cluster, partition, assertWanted)
        if (isOver) return
        if (isReadable) this.#resume(consumer, partition, error)
      }
      if (this.#held.size === 0) this.#isSuspected = false
      else cancel = runtime.setTimer(() => void check(), CHECK_MS, { keepAlive: false })
    }
    this.#endChecks = () => {
      isOver = true
      cancel()
    }
    void check()
  }

  /** @param error - Why the partition could not be read before, if that is known. */
  #resume(
    consumer: Pick<Consumer, 'resume'>,
    { topic, partition }: Partition,
    error: Error | undefined,
  ): void {
    const { port, fields } = this.#options
    if (error !== undefined) {
      port.logger.info({ ...fields, topic, partition }, 'the records can be read now')
    }
    this.#held.delete(nameOf({ topic, partition }))
    consumer.resume([{ topic, partitions: [partition] }])
  }

  /** Never rejects. A broker that does not answer leaves the partition for the next check. */
  async #isReadable(
    cluster: Cluster,
    partition: Partition,
    assertWanted: () => void,
  ): Promise<boolean> {
    const { groupId, maxBytesPerPartition } = this.#options.settings.consumer
    const reached = this.#reached.get(nameOf(partition))
    let offset: string | undefined
    try {
      const next = await nextOffset(cluster, groupId, partition, assertWanted)
      for (offset of reached === undefined ? [next] : [next, reached]) {
        assertWanted()
        await fetchAlone(cluster, partition, offset, maxBytesPerPartition ?? MAX_BYTES)
      }
      return true
    } catch (error) {
      // The position of the group was deleted from the log, which kafkajs corrects itself.
      if (Reflect.get(error as object, 'name') === 'KafkaJSOffsetOutOfRange') return true
      if (isUnreadable(error)) this.#found(partition, offset, error)
      return false
    }
  }

  #found({ topic, partition }: Partition, offset: string | undefined, cause: unknown): void {
    const name = nameOf({ topic, partition })
    // The answer may come after the join that has taken the partition away.
    if (!this.#held.has(name)) return
    const { port, fields } = this.#options
    const isDenied = deniesTopic(cause)
    const where = `Topic '${topic}', partition ${partition}, waits at offset ${offset}`
    const message = isDenied
      ? `Topic '${topic}' waits: this client may not read it. Allow Read on the topic.`
      : `${where}: ${codecAdvice(cause)}`
    // All partitions of a topic are denied together.
    const isNew = ![...this.#held.values()].some(({ error }) => error?.message === message)
    const error = new ConfigurationError(message, { cause })
    this.#held.set(name, { partition: { topic, partition }, error })
    const text = isDenied
      ? 'a topic waits, because this client may not read it'
      : 'a partition waits, because kafkajs cannot decompress its records'
    if (isNew) port.logger.error({ ...fields, topic, partition, offset, err: error }, text)
  }
}

const isUnreadable = (error: unknown): boolean =>
  missingCodecIn(error) !== undefined || deniesTopic(error)

async function fetchAlone(
  cluster: Cluster,
  { topic, partition }: Partition,
  fetchOffset: string,
  maxBytes: number,
): Promise<void> {
  const internals: unknown = cluster
  const { findLeaderForPartitions, findBroker } = internals as Internals
  const [nodeId] = Object.keys(findLeaderForPartitions.call(cluster, topic, [partition]))
  if (nodeId === undefined) throw new Error('the partition has no leader')
  const broker = await findBroker.call(cluster, { nodeId })
  await broker.fetch({
    ...{ isolationLevel: READ_COMMITTED, maxWaitTime: 0, minBytes: 1, maxBytes },
    topics: [{ topic, partitions: [{ partition, fetchOffset, maxBytes }] }],
  })
}
