import {
  type Assigner,
  AssignerProtocol,
  type Cluster,
  type GroupMember,
  PartitionAssigners,
} from 'kafkajs'
import { expect, test } from 'vitest'
import { assignSubscribed } from './assign.ts'

const { MemberAssignment, MemberMetadata } = AssignerProtocol

type Group = Parameters<Assigner['assign']>[0]

/** An assignment with user data. kafkajs' own assigners send none. */
const shareOf = ({ memberId }: GroupMember, assignment: Record<string, number[]>) => ({
  memberId,
  memberAssignment: MemberAssignment.encode({
    ...{ version: 1, assignment },
    userData: Buffer.from(memberId),
  }),
})

/** A group whose leader is the first of these members, and what each member is assigned. */
async function assigned(
  subscriptions: Readonly<Record<string, readonly string[] | null>>,
  {
    partitions = 2,
    missing = [] as readonly string[],
    denied = [] as readonly string[],
    unreachable = [] as readonly string[],
    hasInternals = true,
    asked = [] as Group[],
    /** The assigner of the user. */
    assign = undefined as Assigner['assign'] | undefined,
    onDenied = (_: readonly string[]): void => undefined,
  } = {},
) {
  const targetTopics = new Set(Object.values(subscriptions)[0])
  const addTargetTopic = async (topic: string): Promise<void> => {
    const refused = (type: string): Error => Object.assign(new Error('no'), { type })
    if (missing.includes(topic)) throw refused('UNKNOWN_TOPIC_OR_PARTITION')
    if (denied.includes(topic)) throw refused('TOPIC_AUTHORIZATION_FAILED')
    targetTopics.add(topic)
    if (unreachable.includes(topic)) throw refused('REQUEST_TIMED_OUT')
  }
  const findTopicPartitionMetadata = (topic: string): object[] => {
    const isKnown = targetTopics.has(topic) || !hasInternals
    const numbers = isKnown ? Array.from({ length: partitions }).keys() : []
    return [...numbers].map((partitionId) => ({ partitionId }))
  }
  const internals = hasInternals ? { targetTopics, addTargetTopic } : {}
  const cluster = { ...internals, findTopicPartitionMetadata } as object as Cluster
  const assigner = PartitionAssigners.roundRobin({ cluster } as never)
  const topics = [...targetTopics]
  const members = Object.entries(subscriptions).map(([memberId, names]) => ({
    memberId,
    memberMetadata:
      names === null
        ? Buffer.from([1])
        : MemberMetadata.encode({ version: 1, topics: [...names], userData: Buffer.alloc(0) }),
  }))
  const own = { cluster, onDenied }
  const group = { members, topics }
  const noted: Assigner['assign'] = (part) => {
    asked.push(part)
    return assign === undefined ? assigner.assign(part) : assign(part)
  }
  const assigning = assignSubscribed(noted, own, group)
  const shares = await assigning.finally(() => expect([...targetTopics]).toEqual(topics))
  return Object.fromEntries(
    shares.map(({ memberAssignment, memberId }) => [
      memberId,
      { ...MemberAssignment.decode(memberAssignment)?.assignment },
    ]),
  )
}

test('members with the same topics share all partitions', async () => {
  expect(await assigned({ one: ['orders', 'refunds'], two: ['refunds', 'orders'] })).toEqual({
    one: { orders: [0], refunds: [0] },
    two: { orders: [1], refunds: [1] },
  })
})

// Red when the assigner of kafkajs gets all members: it gives `orders` to both, and `refunds` to none.
test('a member gets the topics that it subscribes to, and no others', async () => {
  expect(await assigned({ one: ['orders'], two: ['refunds'] })).toEqual({
    one: { orders: [0, 1] },
    two: { refunds: [0, 1] },
  })
  expect(await assigned({ old: ['orders'], new: ['orders', 'refunds'] })).toEqual({
    old: { orders: [1] },
    new: { orders: [0], refunds: [0, 1] },
  })
  expect(await assigned({ new: ['orders', 'refunds'], old: ['orders'] })).toEqual({
    new: { orders: [0], refunds: [0, 1] },
    old: { orders: [1] },
  })
})

// Red when nobody is told: the member that may read the topic runs, gets nothing of it, and its health is good.
test('topics of other members that the leader may not describe are told, and deleted ones are not', async () => {
  const [told, asked]: [unknown[], Group[]] = [[], []]
  const options = { missing: ['deleted'], denied: ['refunds', 'claims'], asked }
  const onDenied = (topics: readonly string[]): void => void told.push(topics)
  const topics = { one: ['orders'], two: ['orders', 'refunds', 'deleted', 'claims'] }
  expect(await assigned(topics, { ...options, onDenied })).toEqual({
    one: { orders: [0] },
    two: { orders: [1] },
  })
  expect(told).toEqual([['refunds', 'claims']])
  // The assigner is not asked for topics whose partitions are unknown.
  expect(asked.map((part) => part.topics)).toEqual([['orders']])
  await assigned(topics, { missing: options.missing, onDenied })
  expect(told).toHaveLength(1)
})

test('a topic that the leader cannot describe is left out, and an unreadable member gets the topics of the leader', async () => {
  expect(await assigned({ one: ['orders'], two: ['refunds'] }, { missing: ['refunds'] })).toEqual({
    one: { orders: [0, 1] },
  })
  expect(await assigned({ one: ['orders'], two: null })).toEqual({
    one: { orders: [0] },
    two: { orders: [1] },
  })
})

// Red when the topics are shared out part by part: there is none, so members get no assignment and no user data.
test('members that subscribe to the same topics are left to the assigner, even if there is no topic', async () => {
  const asked: Group[] = []
  const assign: Assigner['assign'] = async ({ members }) => members.map((each) => shareOf(each, {}))
  expect(await assigned({ one: [], two: [] }, { asked, assign })).toEqual({ one: {}, two: {} })
  expect(asked).toMatchObject([{ members: [{ memberId: 'one' }, { memberId: 'two' }], topics: [] }])
})

// Red when the error is taken for a refusal: nobody would consume the topic, and nobody would try again.
test('an assignment fails if the broker does not answer for a topic of another member', async () => {
  const asked: Group[] = []
  const topics = { one: ['orders'], two: ['refunds'] }
  await expect(assigned(topics, { unreachable: ['refunds'], asked })).rejects.toThrow('no')
  expect(asked).toEqual([])
})

test('topics of other members are assigned too if kafkajs gives no access to its topics', async () => {
  expect(await assigned({ one: ['orders'], two: ['refunds'] }, { hasInternals: false })).toEqual({
    one: { orders: [0, 1] },
    two: { refunds: [0, 1] },
  })
})

test.each<[string, readonly string[], object]>([
  ['the first share', ['orders'], { refunds: [0] }],
  ['the second share', ['refunds'], { orders: [0] }],
  ['each share', ['orders', 'refunds'], {}],
])(
  '%s of a member may be empty, as an assigner of the user may answer',
  async (_what, empty, expected) => {
    const assign: Assigner['assign'] = async ({ members, topics: [topic = ''] }) =>
      members.map((member) =>
        empty.includes(topic)
          ? { memberId: member.memberId, memberAssignment: Buffer.alloc(0) }
          : shareOf(member, { [topic]: [0] }),
      )
    const topics = { one: ['orders'], two: ['orders', 'refunds'] }
    const { two } = await assigned(topics, { assign })
    expect(two).toEqual(expected)
  },
)
