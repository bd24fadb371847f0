import { ConfigurationError } from '@onceward/core'
import type { GuardPort } from '@onceward/core/adapter'
import type { PartitionFence } from '@onceward/core/ports'
import type { Partition } from '../offsets.ts'
import type { Position } from './port.ts'
import { resetCommand } from './reset-command.ts'

// With `identity: 'offsets'` (design.md §14). The offset that the group has committed is a hint: where a partition is read
// from is what the inbox says.

/** What identifies a topic beyond its name. */
export interface TopicIdentity {
  /** Undefined if the client does not tell it. */
  readonly clusterId: string | undefined
  readonly topicId: string | undefined
}

/** What the inbox keeps of a partition, and compares. Not every client tells the id of the cluster. */
type PartitionOf = Readonly<Record<'clusterId' | 'topicId' | 'groupId', string>>

/** The partition is not the one whose offsets are stored. Nothing is claimed. */
export interface Refusal {
  /** Why, and what to run. */
  readonly refusal: string
}

interface ClaimOptions {
  readonly groupId: string
  readonly port: Pick<GuardPort, 'claimPartition' | 'settings'>
}

/**
 * Claims a partition in the inbox, unless that has another topic or cluster.
 *
 * @param startsAt - The first offset, if the consumer has never had the partition.
 * @throws {@link ConfigurationError} if the broker tells no topic ids, the inbox keeps no offsets, or those of another group.
 */
export async function claimOf(
  { groupId, port }: ClaimOptions,
  { topic, partition }: Partition,
  { clusterId = '', topicId }: TopicIdentity,
  startsAt: number,
): Promise<PartitionFence | Refusal> {
  if (topicId === undefined) throw new ConfigurationError(NO_IDS)
  const of: PartitionOf = { clusterId, topicId, groupId }
  const answer = await port.claimPartition({
    key: `kafka/${topic}/${partition}`,
    // The id of a topic is random, so no other cluster has it.
    place: `${topicId}/${partition}`,
    name: { topic, partition: String(partition) },
    ...{ of, startsAt },
  })
  switch (answer.kind) {
    case 'claimed':
      return answer.fence
    case 'no-offsets':
      throw new ConfigurationError(NO_OFFSETS)
    case 'other': {
      const { consumer } = port.settings
      const stored = { ...(answer.stored.of as PartitionOf), next: answer.stored.next }
      const claim = { consumer, topic, partition, ...of }
      if (stored.groupId !== groupId) throw new ConfigurationError(otherGroup(claim, stored))
      return { refusal: otherPartition(claim, stored) }
    }
  }
}

interface Claim extends Partition, PartitionOf {
  readonly consumer: string
}

const isAnother = ({ consumer, partition, topic }: Claim): string =>
  `Partition ${partition} of topic '${topic}' is not the one whose offsets consumer '${consumer}' has stored: `

/** The records of another place have the offsets of those that are done. */
function otherPartition(claim: Claim, stored: PartitionOf): string {
  const clusters = new Set([stored.clusterId, claim.clusterId])
  const isCluster = clusters.size === 2 && !clusters.has('')
  const why = isCluster
    ? `those are of cluster ${stored.clusterId}, and this one is ${claim.clusterId}, where records have other offsets`
    : 'the topic was deleted and created again, and its offsets have begun anew'
  return `${isAnother(claim)}${why}. To run all records that it has now: \`${resetCommand(claim, 0)}\`. To begin behind some of them, give another offset.`
}

function otherGroup(claim: Claim, stored: PartitionOf & { readonly next: number }): string {
  const groups = `those are of group '${stored.groupId}', and this consumer is in group '${claim.groupId}'. `
  const command = resetCommand(claim, stored.next)
  return `${isAnother(claim)}${groups}Two groups of one consumer would take each other's partitions: use one group, or another \`consumer\`. If the group has got another name, run \`${command}\`, and the same for each other partition with its own NEXT of \`npx onceward offsets show\`.`
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
const NO_OFFSETS =
  "`identity: 'offsets'` needs an inbox in Postgres, because no other keeps the offsets of partitions."
