import {
  type Assigner,
  AssignerProtocol,
  type Cluster,
  type GroupMember,
  type GroupMemberAssignment,
} from 'kafkajs'
import { classifyError } from '../../errors.ts'

type Group = Parameters<Assigner['assign']>[0]
type Assign = Assigner['assign']

export type OnDenied = (topics: readonly string[]) => void

/** Parts of kafkajs' cluster that its types leave out. */
interface Targets {
  addTargetTopic?(topic: string): Promise<unknown>
  readonly targetTopics?: Set<string>
}

/**
 * Gives each member partitions of the topics that it subscribes to, and of no others.
 *
 * The assigners of kafkajs give the topics of the group's leader to all members. A member drops those that it does not
 * subscribe to, so their partitions are not consumed, nor the topics that the leader does not subscribe to. The topics of
 * members differ while a deployment adds one, and when a guard has several consumers.
 *
 * @param onDenied - Called with the topics of other members that this client, the leader, may not describe. They are not assigned.
 */
export async function assignSubscribed(
  assign: Assign,
  { cluster, onDenied }: { readonly cluster: Cluster; readonly onDenied: OnDenied },
  group: Group,
): Promise<GroupMemberAssignment[]> {
  const topicsOf = new Map(
    group.members.map((member) => [member, subscribedBy(member) ?? new Set(group.topics)]),
  )
  const all = new Set([...topicsOf.values()].flatMap((topics) => [...topics]))
  if ([...topicsOf.values()].every(({ size }) => size === all.size)) return assign(group)
  const targets: unknown = cluster
  const others = [...all].filter((topic) => !group.topics.includes(topic))
  const denied: string[] = []
  try {
    for (const topic of others) {
      const answer = await lookAt(targets as Targets, topic)
      if (answer !== 'known') all.delete(topic)
      if (answer === 'denied') denied.push(topic)
    }
    if (denied.length > 0) onDenied(denied)
    const shares: GroupMemberAssignment[] = []
    for (const part of partsOf(all, topicsOf)) shares.push(...(await assign(part)))
    return merged(shares)
  } finally {
    // The metadata of this member's own topics must not fail because of them.
    for (const topic of others) (targets as Targets).targetTopics?.delete(topic)
  }
}

/** Undefined for members of clients that kafkajs cannot read. */
function subscribedBy({ memberMetadata }: GroupMember): ReadonlySet<string> | undefined {
  try {
    const topics = AssignerProtocol.MemberMetadata.decode(memberMetadata)?.topics
    return topics && new Set(topics)
  } catch {
    return undefined
  }
}

/** Lets kafkajs read the partitions of a topic, unless it does not exist or this client may not describe it. */
async function lookAt(targets: Targets, topic: string): Promise<'known' | 'missing' | 'denied'> {
  try {
    await targets.addTargetTopic?.(topic)
    return 'known'
  } catch (error) {
    const { kind } = classifyError(error)
    if (kind === 'topic-missing') return 'missing'
    if (kind === 'denied') return 'denied'
    throw error
  }
}

/** The topics that have the same subscribers together, because an assigner balances the topics of one call. */
function partsOf(
  topics: ReadonlySet<string>,
  topicsOf: ReadonlyMap<GroupMember, ReadonlySet<string>>,
): readonly Group[] {
  const parts = new Map<string, Group>()
  for (const topic of topics) {
    const members = [...topicsOf].flatMap(([member, own]) => (own.has(topic) ? [member] : []))
    const key = JSON.stringify(members.map(({ memberId }) => memberId))
    const part = parts.get(key) ?? { members, topics: [] }
    part.topics.push(topic)
    parts.set(key, part)
  }
  return [...parts.values()]
}

/** One assignment for each member. */
function merged(shares: readonly GroupMemberAssignment[]): GroupMemberAssignment[] {
  const byMember = new Map<string, Buffer>()
  for (const { memberAssignment, memberId } of shares) {
    const before = byMember.get(memberId)
    byMember.set(
      memberId,
      before === undefined ? memberAssignment : joined(before, memberAssignment),
    )
  }
  return [...byMember].map(([memberId, memberAssignment]) => ({ memberId, memberAssignment }))
}

function joined(one: Buffer, two: Buffer): Buffer {
  const { MemberAssignment } = AssignerProtocol
  const [a, b] = [MemberAssignment.decode(one), MemberAssignment.decode(two)]
  if (a === null || b === null) return a === null ? two : one
  return MemberAssignment.encode({ ...a, assignment: { ...a.assignment, ...b.assignment } })
}
