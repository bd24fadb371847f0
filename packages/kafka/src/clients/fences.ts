import { ConfigurationError } from '@onceward/core'
import { describeError, type GuardPort } from '@onceward/core/adapter'
import type { PartitionFence } from '@onceward/core/ports'
import { nameOf, type Partition } from '../offsets.ts'

export interface FencesOptions {
  readonly port: Pick<GuardPort, 'claimPartition' | 'logger'>
  readonly groupId: string
  /** The oldest offset in the log. */
  readonly oldest: (partition: Partition) => Promise<number>
  /** Sets where the client reads the partition next. */
  readonly seek: (partition: Partition, offset: number) => void
  /** The consumer must be replaced: another member has claimed a partition, or it must not be read. */
  readonly onOver: (error: Error) => void
}

interface Claimed {
  readonly partition: Partition
  readonly fence: PartitionFence
}

/** What identifies a topic beyond its name. */
export interface TopicIdentity {
  /** Undefined if the client does not tell it. */
  readonly clusterId: string | undefined
  readonly topicId: string | undefined
}

/** What a fetch has asked for, and what it says of the log. */
export interface FetchedAt {
  /** Records may begin later: what is between was compacted, or is of a transaction. */
  readonly position: number
  /** Behind the last record that was fetched. */
  readonly next: number
  /** Behind the last record of the log. */
  readonly end: number
}

export type FenceAnswer =
  | { readonly kind: 'read'; readonly fence: PartitionFence }
  /** What was fetched is dropped, and the partition is read from there. */
  | { readonly kind: 'seek'; readonly offset: number }
  /** What was fetched is dropped, and comes again. */
  | { readonly kind: 'later' }

/**
 * The partitions that this member has claimed in the inbox, with `identity: 'offsets'` (design.md §14). The offset that
 * the group has committed is a hint: where a partition is read from is what the inbox says.
 */
export class Fences {
  readonly #options: FencesOptions
  readonly #claimed = new Map<string, Claimed>()
  /** Partitions that were set back, and to where. */
  readonly #sought = new Map<string, number>()
  /** What is read next of the partitions that are read from where the inbox says. */
  readonly #next = new Map<string, number>()
  /** Raised by each assignment. */
  #assignment = 0

  constructor(options: FencesOptions) {
    this.#options = options
  }

  /** Other members may have had all partitions but these meanwhile. */
  assigned(isKept: (partition: Partition) => boolean): void {
    this.#assignment += 1
    for (const [name, { partition }] of this.#claimed) {
      if (isKept(partition)) continue
      this.#claimed.delete(name)
      this.#next.delete(name)
    }
    this.#sought.clear()
  }

  /** Undefined before the partition is claimed. */
  of(partition: Partition): PartitionFence | undefined {
    return this.#claimed.get(nameOf(partition))?.fence
  }

  /** Claims the partition if it is not claimed yet. Never rejects. */
  async at(partition: Partition, topic: TopicIdentity, at: FetchedAt): Promise<FenceAnswer> {
    const name = nameOf(partition)
    const assignment = this.#assignment
    try {
      const fence =
        this.of(partition) ?? (await claimOf(this.#options, partition, topic, at.position))
      if (assignment !== this.#assignment) return { kind: 'later' }
      this.#claimed.set(name, {
        partition: { topic: partition.topic, partition: partition.partition },
        fence,
      })
      return await this.#place(partition, fence, at)
    } catch (error) {
      if (error instanceof ConfigurationError) this.#options.onOver(error)
      const { topic: queue, partition: number } = partition
      const fields = { topic: queue, partition: number, err: describeError(error) }
      this.#options.port.logger.warn(fields, 'a partition could not be claimed; it is tried again')
      return { kind: 'later' }
    }
  }

  seek(partition: Partition, offset: number): void {
    this.#options.seek(partition, offset)
  }

  /** The consumer goes on with another member id, and claims anew, if another member has claimed one of its partitions. */
  look(partition: Partition): void {
    if (this.of(partition)?.isLost !== true) return
    this.#options.onOver(new Error('another member has claimed a partition of this one'))
  }

  /**
   * What is read first after the claim may be at another place than that of the inbox. Later on, a client that skips
   * offsets leaves out what no consumer sees, or reads on at the oldest record because retention has deleted those before.
   */
  async #place(
    partition: Partition,
    fence: PartitionFence,
    { end, next, position }: FetchedAt,
  ): Promise<FenceAnswer> {
    const name = nameOf(partition)
    const from = this.#next.get(name) ?? fence.from
    const oldest = position > from ? await this.#options.oldest(partition) : 0
    refuseOutside(partition, from, { oldest, end })
    if (position > from && this.#sought.get(name) !== from) {
      this.#sought.set(name, from)
      return { kind: 'seek', offset: from }
    }
    this.#sought.delete(name)
    this.#next.set(name, Math.max(from, next))
    return { kind: 'read', fence }
  }
}

/**
 * Claims a partition in the inbox.
 *
 * @param startsAt - The first offset, if the consumer has never had the partition.
 * @throws {@link ConfigurationError} if the broker tells no topic ids, or the inbox has another topic, cluster or group.
 */
export async function claimOf(
  { groupId, port }: Pick<FencesOptions, 'groupId' | 'port'>,
  { topic, partition }: Partition,
  { clusterId = '', topicId }: TopicIdentity,
  startsAt: number,
): Promise<PartitionFence> {
  if (topicId === undefined) throw new ConfigurationError(NO_IDS)
  return port.claimPartition({ clusterId, topicId, topic, partition, groupId, startsAt })
}

/** @throws {@link ConfigurationError} if the log does not have the place that is read next. */
export function refuseOutside(
  partition: Partition,
  from: number,
  { end, oldest }: { readonly oldest: number; readonly end: number },
): void {
  if (oldest > from) throw new ConfigurationError(outOfRange(partition, from, oldest))
  if (end < from) throw new ConfigurationError(truncated(partition, from, end))
}

const NO_IDS =
  "`identity: 'offsets'` needs the ids of topics, and this broker does not tell them. Use Kafka 3.1 or newer, or event keys."

const outOfRange = ({ topic, partition }: Partition, from: number, position: number): string =>
  `Kafka has no record ${from} of partition ${partition} of topic '${topic}' any more (OFFSET_OUT_OF_RANGE): the first one is ${position}, and those between were not processed. Retention was shorter than this consumer was behind. Look with \`onceward offsets show\`, then skip them with \`onceward offsets reset --to ${position}\`.`

const truncated = ({ topic, partition }: Partition, from: number, end: number): string =>
  `Partition ${partition} of topic '${topic}' ends at ${end}, and this consumer has processed it up to ${from}: Kafka has lost its last records, and new ones take their offsets. Look with \`onceward offsets show\`, then run the new ones with \`onceward offsets reset --to ${end}\`.`
