import { ConfigurationError } from '@onceward/core'
import { type GuardPort, resetCommand } from '@onceward/core/adapter'
import type { PartitionFence, PartitionRefusal } from '@onceward/core/ports'
import type { Partition } from '../offsets.ts'
import type { Position } from './port.ts'

// With `identity: 'offsets'` (design.md §14). The offset that the group has committed is a hint: where a partition is read
// from is what the inbox says.

/** What identifies a topic beyond its name. */
export interface TopicIdentity {
  /** Undefined if the client does not tell it. */
  readonly clusterId: string | undefined
  readonly topicId: string | undefined
}

/**
 * Claims a partition in the inbox, unless that has another topic or cluster.
 *
 * @param startsAt - The first offset, if the consumer has never had the partition.
 * @throws {@link ConfigurationError} if the broker tells no topic ids, or the inbox has another group.
 */
export async function claimOf(
  { groupId, port }: { readonly groupId: string; readonly port: Pick<GuardPort, 'claimPartition'> },
  { topic, partition }: Partition,
  { clusterId = '', topicId }: TopicIdentity,
  startsAt: number,
): Promise<PartitionFence | PartitionRefusal> {
  if (topicId === undefined) throw new ConfigurationError(NO_IDS)
  return port.claimPartition({ clusterId, topicId, topic, partition, groupId, startsAt })
}

/** The first offset of a log, and that behind its last record. */
export interface LogRange {
  readonly oldest: number
  readonly end: number
}

/** Why the place that is read next is not in the log, and what to run. Undefined if it is. */
export function refusalOutside(
  consumer: string,
  { topic, partition, offset }: Position,
  { end, oldest }: LogRange,
): string | undefined {
  const from = Number(offset)
  const resetTo = (to: number): string => resetCommand({ consumer, topic, partition }, to)
  if (oldest > from) {
    const last = oldest - 1
    const deleted = last === from ? `record ${from}` : `records ${from} to ${last}`
    return `Kafka has deleted ${deleted} of partition ${partition} of topic '${topic}', and this consumer has not processed them (OFFSET_OUT_OF_RANGE): retention was shorter than it was behind. To go on with the first record that is left: \`${resetTo(oldest)}\`.`
  }
  if (end < from) {
    return `Partition ${partition} of topic '${topic}' ends at ${end}, and this consumer has processed it up to ${from}: Kafka has lost its last records, and new ones take their offsets. To run the new ones: \`${resetTo(end)}\`.`
  }
  return undefined
}

const NO_IDS =
  "`identity: 'offsets'` needs the ids of topics, and this broker does not tell them. Use Kafka 3.1 or newer, or event keys."
