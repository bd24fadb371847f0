import type { Cluster } from 'kafkajs'
import { rebalanceIn } from '../../errors.ts'

interface Offsets {
  readonly topic: string
  readonly partitions: readonly { readonly partition: number; readonly offset: string }[]
}

/** Methods of kafkajs' broker and cluster that its types leave out. */
export interface Coordinator {
  offsetFetch(request: {
    readonly groupId: string
    readonly topics: readonly {
      readonly topic: string
      readonly partitions: readonly { readonly partition: number }[]
    }[]
  }): Promise<{ readonly responses: readonly Offsets[] }>
  offsetCommit(request: {
    readonly groupId: string
    readonly groupGenerationId: number
    readonly memberId: string
    readonly topics: readonly Offsets[]
  }): Promise<unknown>
  leaveGroup(request: { readonly groupId: string; readonly memberId: string }): Promise<unknown>
}
interface Metadata {
  findTopicPartitionMetadata(topic: string): readonly { readonly partitionId: number }[]
}

/** What Kafka answers for a partition without an offset. */
const NO_OFFSET = '-1'

/**
 * Lets a group that has no offset yet start at the present ends of all its partitions.
 *
 * The ends are committed, in one request, before any member reads. A partition without an offset was therefore not
 * there at the first start of the group, so it is read from its beginning (brokers.md B7). kafkajs would start it at
 * its end whenever it is discovered, and skip what came before.
 *
 * Returns false if members of the group are active and have committed nothing: Kafka refuses the offsets
 * of others then.
 */
export async function startAtEnds(
  cluster: Cluster,
  groupId: string,
  topics: readonly string[],
): Promise<boolean> {
  const found: unknown = await cluster.findGroupCoordinator({ groupId })
  const coordinator = found as Coordinator
  const isNew = async (): Promise<boolean> => {
    // No topics means all topics.
    const { responses } = await coordinator.offsetFetch({ groupId, topics: [] })
    return (
      responses
        .flatMap(({ partitions }) => partitions)
        // An offset that fell out of the log is −2 until the next commit: kafkajs commits that, then reads on.
        .every(({ offset }) => offset === NO_OFFSET)
    )
  }
  if (topics.length === 0 || !(await isNew())) return true
  const metadata: unknown = cluster
  const partitionsOf = (topic: string) =>
    (metadata as Metadata)
      .findTopicPartitionMetadata(topic)
      .map(({ partitionId }) => ({ partition: partitionId }))
  const ends = await cluster.fetchTopicsOffset(
    topics.map((topic) => ({ topic, partitions: partitionsOf(topic), fromBeginning: false })),
  )
  try {
    const nobody = { groupGenerationId: -1, memberId: '' }
    await coordinator.offsetCommit({ groupId, ...nobody, topics: ends })
    return true
  } catch (error) {
    if (rebalanceIn(error) === undefined) throw error
    // Another member has joined meanwhile.
    return !(await isNew())
  }
}
