import {
  type Assigner,
  AssignerProtocol,
  type Cluster,
  Kafka,
  type PartitionAssigner,
  PartitionAssigners,
} from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { protocolError } from '../../fixtures/fetch.ts'
import { strangersTo } from '../shared-group.ts'
import { consumerOf, withCluster } from './group.ts'

const { MemberAssignment, MemberMetadata } = AssignerProtocol
const ignore = (): void => undefined

/** A method that the types of kafkajs leave out. */
interface Offsets {
  committedOffsets(of: { readonly groupId: string }): object
}

// Red with the offsets of the client: when one member joins later than the other, kafkajs forgets the topics of the other
// one, whose next fetch ends with a TypeError.
test('two consumers of one client in one group do not share their offsets', () => {
  const kafka = new Kafka({ brokers: ['127.0.0.1:1'] })
  const offsets = ['orders', 'payments'].map(() => {
    const { config, cluster } = withCluster({ groupId: 'billing' }, 'billing', {
      onStrangers: ignore,
      onDenied: ignore,
    })
    kafka.consumer(config)
    return (cluster() as Cluster & Offsets).committedOffsets(config)
  })
  expect(offsets[0]).not.toBe(offsets[1])
})

const metadataOf = (text: string | null, topics = ['orders']): Buffer =>
  MemberMetadata.encode({
    ...{ version: 1, topics },
    // As a member of another client may send.
    userData: (text === null ? null : Buffer.from(text)) as Buffer,
  })

/** An assigner of a member, made as kafkajs makes it, and what it told. */
function assignerOf({
  given = undefined as PartitionAssigner[] | undefined,
  refuses = false,
  denied = [] as readonly string[],
} = {}) {
  const told: unknown[] = []
  const { cluster, config } = withCluster(
    { groupId: 'group', ...(given && { partitionAssigners: given }) },
    'billing',
    {
      onStrangers: (consumers) => {
        told.push(consumers)
        if (refuses) throw new Error('another consumer')
      },
      onDenied: (topics) => void told.push({ denied: topics }),
    },
  )
  const known: object = {
    findTopicPartitionMetadata: () => [{ partitionId: 0 }, { partitionId: 1 }],
    addTargetTopic: async (topic: string) => {
      if (denied.includes(topic)) throw protocolError('TOPIC_AUTHORIZATION_FAILED')
    },
  }
  const before = cluster()
  const context = { cluster: known as Cluster, groupId: 'group', logger: undefined as never }
  const assigners = config.partitionAssigners ?? []
  const [assigner] = assigners.map((make) => make(context))
  return {
    assigner: assigner as Assigner,
    others: assigners.slice(1),
    cluster,
    config,
    before,
    known,
    told,
  }
}

const sharesOf = async (assigner: Assigner, members: Readonly<Record<string, Buffer>>) => {
  const asked = Object.entries(members).map(([memberId, memberMetadata]) => ({
    ...{ memberId, memberMetadata },
  }))
  const shares = await assigner.assign({ members: asked, topics: ['orders'] })
  return shares.map(({ memberAssignment, memberId }) => [
    memberId,
    { ...MemberAssignment.decode(memberAssignment)?.assignment },
  ])
}

describe('the assigner of a member', () => {
  test('keeps the cluster of its consumer', () => {
    const { before, cluster, known } = assignerOf()
    expect(before).toBeUndefined()
    expect(cluster()).toBe(known)
  })

  // Red before with null, as some encode it: the TypeError ended each consumer when it joined.
  test.each([null, ''])(
    'says it too for an assigner of the user that sends %j as user data',
    (sent) => {
      const own: PartitionAssigner = (context) => ({
        ...PartitionAssigners.roundRobin(context),
        protocol: () => ({ name: 'Own', metadata: metadataOf(sent) }),
      })
      const { assigner } = assignerOf({ given: [own] })
      const { name, metadata } = assigner.protocol({ topics: ['orders'] })
      const userData = Buffer.from('onceward:billing')
      expect([name, MemberMetadata.decode(metadata)]).toEqual([
        'Own',
        { version: 1, topics: ['orders'], userData },
      ])
    },
  )

  test('is that of kafkajs, and says which consumer the member is of', () => {
    const { assigner } = assignerOf()
    const { name, metadata } = assigner.protocol({ topics: ['orders'] })
    expect([name, assigner.version]).toEqual(['RoundRobinAssigner', 0])
    const userData = Buffer.from('onceward:billing')
    expect(MemberMetadata.decode(metadata)).toEqual({ version: 0, topics: ['orders'], userData })
  })

  test('is the first one that the user gives, and the others are left as they are', () => {
    const own: PartitionAssigner = (context) => ({
      ...PartitionAssigners.roundRobin(context),
      name: 'Own',
    })
    const { assigner, config, others } = assignerOf({ given: [own, PartitionAssigners.roundRobin] })
    expect(assigner.name).toBe('Own')
    expect(config.groupId).toBe('group')
    expect(others).toEqual([PartitionAssigners.roundRobin])
  })

  // Red when it is overwritten: an assigner that sends its own user data reads it again, on the leader.
  test('leaves the user data alone that an assigner of the user sends', () => {
    const state = { name: 'Own', metadata: metadataOf('rack-1') }
    const own: PartitionAssigner = (context) => ({
      ...PartitionAssigners.roundRobin(context),
      protocol: () => state,
    })
    const { assigner } = assignerOf({ given: [own] })
    expect(assigner.protocol({ topics: ['orders'] })).toBe(state)
  })

  test('tells of members of other consumers before it assigns any partition', async () => {
    const { assigner, told } = assignerOf()
    const members = { one: metadataOf('onceward:billing'), two: metadataOf('onceward:shipping') }
    expect(await sharesOf(assigner, members)).toEqual([
      ['one', { orders: [0] }],
      ['two', { orders: [1] }],
    ])
    expect(told).toEqual([['shipping']])
  })

  test('assigns nothing if the consumer refuses those members', async () => {
    const { assigner } = assignerOf({ refuses: true })
    const members = { one: metadataOf('onceward:billing'), two: metadataOf('onceward:shipping') }
    await expect(sharesOf(assigner, members)).rejects.toThrow('another consumer')
  })

  test('tells nothing of members of the same consumer, or of other clients', async () => {
    const { assigner, told } = assignerOf({ refuses: true })
    const members = { one: metadataOf('onceward:billing'), two: metadataOf('rack-1') }
    expect(await sharesOf(assigner, members)).toHaveLength(2)
    expect(told).toEqual([])
  })

  test('tells of topics of other members that it may not describe', async () => {
    const { assigner, told } = assignerOf({ denied: ['refunds'] })
    const two = metadataOf('onceward:billing', ['refunds'])
    await sharesOf(assigner, { one: metadataOf('onceward:billing'), two })
    expect(told).toEqual([{ denied: ['refunds'] }])
  })
})

test.each<[string, readonly (Buffer | string | null)[], readonly string[]]>([
  ['the same consumer', ['onceward:billing'], []],
  ['another consumer', ['onceward:billing', 'onceward:shipping'], ['shipping']],
  ['another consumer, twice', ['onceward:shipping', 'onceward:shipping'], ['shipping']],
  ['a consumer with an odd name', ['onceward:onceward:'], ['onceward:']],
  ['another client', ['rack-1 onceward:shipping', ''], []],
  ['another client without user data', [null], []],
  ['a client that kafkajs cannot read', [Buffer.from([1])], []],
  ['a group in a rebalance, which tells no metadata', [Buffer.alloc(0)], []],
])('other consumers in a group: of members of %s', (_what, sent, expected) => {
  const members = sent.map((each) => ({
    memberMetadata: Buffer.isBuffer(each) ? each : metadataOf(each),
  }))
  expect(strangersTo('billing', members.map(consumerOf))).toEqual(expected)
})
