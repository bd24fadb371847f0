import { AssignerProtocol, type Cluster, PartitionAssigners } from 'kafkajs'
import { expect, test } from 'vitest'
import { assignSubscribed } from './assign.ts'

const { MemberAssignment, MemberMetadata } = AssignerProtocol

/** A group whose leader is the first of these members, and what each member is assigned. */
async function assigned(
  subscriptions: Readonly<Record<string, readonly string[] | null>>,
  {
    partitions = 2,
    missing = [] as readonly string[],
    denied = [] as readonly string[],
    onDenied = (_: readonly string[]): void => undefined,
  } = {},
) {
  const targetTopics = new Set(Object.values(subscriptions)[0])
  const addTargetTopic = async (topic: string): Promise<void> => {
    const refused = (type: string): Error => Object.assign(new Error('no'), { type })
    if (missing.includes(topic)) throw refused('UNKNOWN_TOPIC_OR_PARTITION')
    if (denied.includes(topic)) throw refused('TOPIC_AUTHORIZATION_FAILED')
    targetTopics.add(topic)
  }
  const findTopicPartitionMetadata = (topic: string): object[] => {
    const numbers = targetTopics.has(topic) ? Array.from({ length: partitions }).keys() : []
    return [...numbers].map((partitionId) => ({ partitionId }))
  }
  const internals: object = { targetTopics, addTargetTopic, findTopicPartitionMetadata }
  const cluster = internals as Cluster
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
  const shares = await assignSubscribed((part) => assigner.assign(part), own, group)
  expect([...targetTopics]).toEqual(topics)
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
  const told: unknown[] = []
  const options = { missing: ['deleted'], denied: ['refunds', 'claims'] }
  const onDenied = (topics: readonly string[]): void => void told.push(topics)
  const topics = { one: ['orders'], two: ['orders', 'refunds', 'deleted', 'claims'] }
  expect(await assigned(topics, { ...options, onDenied })).toEqual({
    one: { orders: [0] },
    two: { orders: [1] },
  })
  expect(told).toEqual([['refunds', 'claims']])
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
