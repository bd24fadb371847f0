import {
  type Assigner,
  AssignerProtocol,
  type Cluster,
  type ConsumerConfig,
  type GroupState,
  type MemberDescription,
  PartitionAssigners,
} from 'kafkajs'
import { signatureOf, signedBy, strangersTo } from '../shared-group.ts'
import { assignSubscribed, type OnDenied } from './assign.ts'

/** What a member finds out when it assigns the partitions of its group. */
interface AsLeader {
  /** Called before it assigns any to members of other consumers; may throw. */
  readonly onStrangers: (consumers: readonly string[]) => void
  readonly onDenied: OnDenied
}

/**
 * A config that gives access to the consumer's cluster, which kafkajs hands to partition assigners only. The first
 * assigner keeps the cluster, and also shows the group which guard's consumer this member belongs to.
 */
export function withCluster<Config extends ConsumerConfig>(
  config: Config,
  consumer: string,
  { onStrangers, onDenied }: AsLeader,
): { readonly config: Config; readonly cluster: () => Cluster | undefined } {
  let cluster: Cluster | undefined
  const [first = PartitionAssigners.roundRobin, ...others] = config.partitionAssigners ?? []
  const remembering: typeof first = (context) => {
    cluster = Object.assign(context.cluster, ownOffsets())
    const assigner = first(context)
    const protocol: Assigner['protocol'] = (subscription) =>
      signed(assigner.protocol(subscription), consumer)
    const assign: Assigner['assign'] = async (group) => {
      const strangers = strangersTo(consumer, group.members.map(consumerOf))
      if (strangers.length > 0) onStrangers(strangers)
      const own = { cluster: context.cluster, onDenied }
      return assignSubscribed((part) => assigner.assign(part), own, group)
    }
    const own = { protocol: { value: protocol }, assign: { value: assign } }
    return Object.create(assigner, own) as Assigner
  }
  return {
    config: { ...config, partitionAssigners: [remembering, ...others] },
    cluster: () => cluster,
  }
}

/**
 * kafkajs keeps the committed offsets of a group once for all consumers of a client. Whichever member joins last clears
 * the topics of the others, and the next fetch of those ends with a TypeError.
 */
const ownOffsets = () => ({ committedOffsetsByGroup: new Map<string, object>() })

/** An assigner that sends its own user data stays unchanged. */
function signed(state: GroupState, consumer: string): GroupState {
  const sent = AssignerProtocol.MemberMetadata.decode(state.metadata)
  // Null if the assigner of a user says so, although the types of kafkajs do not.
  if (sent === null || sent.userData?.length > 0) return state
  const { version, topics } = sent
  const userData = signatureOf(consumer)
  const metadata = AssignerProtocol.MemberMetadata.encode({ version, topics, userData })
  return { ...state, metadata }
}

/** The guard's consumer of a group member; undefined for members that do not send it. */
export function consumerOf({
  memberMetadata,
}: Pick<MemberDescription, 'memberMetadata'>): string | undefined {
  try {
    return signedBy(AssignerProtocol.MemberMetadata.decode(memberMetadata)?.userData)
  } catch {
    // Not readable by kafkajs: a member of another client, or a group in a rebalance.
    return undefined
  }
}
