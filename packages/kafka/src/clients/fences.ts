import { ConfigurationError } from '@onceward/core'
import type { GuardPort } from '@onceward/core/adapter'
import type { PartitionFence } from '@onceward/core/ports'
import type { Partition } from '../offsets.ts'

// With `identity: 'offsets'` (design.md §14). The offset that the group has committed is a hint: where a partition is read
// from is what the inbox says.

/** What identifies a topic beyond its name. */
export interface TopicIdentity {
  /** Undefined if the client does not tell it. */
  readonly clusterId: string | undefined
  readonly topicId: string | undefined
}

/**
 * Claims a partition in the inbox.
 *
 * @param startsAt - The first offset, if the consumer has never had the partition.
 * @throws {@link ConfigurationError} if the broker tells no topic ids, or the inbox has another topic, cluster or group.
 */
export async function claimOf(
  { groupId, port }: { readonly groupId: string; readonly port: Pick<GuardPort, 'claimPartition'> },
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
