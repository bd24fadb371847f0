import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { protocolError } from '../../fixtures/fetch.ts'
import { startAtEnds } from './start-offsets.ts'

/** As much of a cluster as decides where a group starts. The test gives its answers. */
function asking() {
  /** Requests, in order. */
  const asked: unknown[] = []
  /** Offsets of the group by topic; one answer after the other, the last one for good. */
  const world = {
    committed: [{}] as Readonly<Record<string, readonly string[]>>[],
    partitions: { orders: [0, 1] } as Readonly<Record<string, readonly number[]>>,
    commit: async () => undefined as unknown,
  }
  const coordinator = {
    offsetFetch: async (request: object) => {
      asked.push(['committed', request])
      const [now = {}] = world.committed.length > 1 ? world.committed.splice(0, 1) : world.committed
      const responses = Object.entries(now).map(([topic, offsets]) => ({
        topic,
        partitions: offsets.map((offset, partition) => ({ partition, offset })),
      }))
      return { responses }
    },
    offsetCommit: (request: object) => {
      asked.push(['commit', request])
      return world.commit()
    },
  }
  const cluster: object = {
    findGroupCoordinator: async (request: object) => {
      asked.push(['coordinator', request])
      return coordinator
    },
    findTopicPartitionMetadata: (topic: string) =>
      world.partitions[topic]?.map((partitionId) => ({ partitionId })) ?? [],
    // kafkajs leaves out partitions that do not exist, and topics without any.
    fetchTopicsOffset: async (topics: readonly Asked[]) => {
      asked.push(['offsets', topics])
      return topics.flatMap(({ topic, partitions, fromBeginning }) => {
        const there = partitions.filter((each) => world.partitions[topic]?.includes(each.partition))
        const offsets = there.map((each) => ({ ...each, offset: fromBeginning ? '7' : '99' }))
        return offsets.length === 0 ? [] : [{ topic, partitions: offsets }]
      })
    },
  }
  return { cluster: cluster as Cluster, world, asked }
}

interface Asked {
  readonly topic: string
  readonly partitions: readonly { readonly partition: number }[]
  readonly fromBeginning: boolean
}

const COORDINATOR = ['coordinator', { groupId: 'billing' }]
const ALL = ['committed', { groupId: 'billing', topics: [] }]

test('a new group starts at the ends of all partitions, committed in one request before any member reads', async () => {
  const { asked, cluster, world } = asking()
  world.partitions = { orders: [0, 1], refunds: [0] }
  world.committed = [{ orders: ['-1', '-1'], refunds: ['-1'] }]
  expect(await startAtEnds(cluster, 'billing', ['orders', 'refunds'])).toBe(true)
  const topics = [
    { topic: 'orders', partitions: [{ partition: 0 }, { partition: 1 }], fromBeginning: false },
    { topic: 'refunds', partitions: [{ partition: 0 }], fromBeginning: false },
  ]
  const ends = [
    {
      topic: 'orders',
      partitions: [
        { partition: 0, offset: '99' },
        { partition: 1, offset: '99' },
      ],
    },
    { topic: 'refunds', partitions: [{ partition: 0, offset: '99' }] },
  ]
  const nobody = { groupId: 'billing', groupGenerationId: -1, memberId: '' }
  expect(asked).toEqual([
    ...[COORDINATOR, ALL, ['offsets', topics]],
    ['commit', { ...nobody, topics: ends }],
  ])
})

// Red when such a group starts at the ends: it would skip every record that is not processed yet.
test.each<[string, Readonly<Record<string, readonly string[]>>]>([
  ['has an offset in one partition', { orders: ['-1', '0'] }],
  ['has an offset of another topic', { orders: ['-1', '-1'], refunds: ['5'] }],
  ['has only an offset that fell out of the log', { orders: ['-2', '-1'] }],
])('a group that %s continues, and nothing is committed', async (_what, committed) => {
  const { asked, cluster, world } = asking()
  world.committed = [committed]
  expect(await startAtEnds(cluster, 'billing', ['orders'])).toBe(true)
  expect(asked).toEqual([COORDINATOR, ALL])
})

// Red when it goes on: no topics stand for all, and a commit of nothing would not make a group that has started.
test('without topics there is nothing to start at', async () => {
  const { asked, cluster } = asking()
  expect(await startAtEnds(cluster, 'billing', [])).toBe(true)
  expect(asked).toEqual([COORDINATOR])
})

test.each<[string, string, boolean]>([
  ['has committed, so the group has started', '3', true],
  ['has not committed, so the start is left to kafkajs', '-1', false],
])(
  'Kafka refuses the ends if another member has joined: that one %s',
  async (_what, then, expected) => {
    const { asked, cluster, world } = asking()
    world.committed = [{}, { orders: [then] }]
    world.commit = () => Promise.reject(protocolError('UNKNOWN_MEMBER_ID'))
    expect(await startAtEnds(cluster, 'billing', ['orders'])).toBe(expected)
    expect(asked.slice(-1)).toEqual([ALL])
  },
)

// Red when it is taken for the other member: the group would start at the beginning or the end by chance.
test('any other failure of the commit ends the start, which is tried again', async () => {
  const { cluster, world } = asking()
  world.commit = () => Promise.reject(protocolError('GROUP_AUTHORIZATION_FAILED'))
  const starting = startAtEnds(cluster, 'billing', ['orders'])
  await expect(starting).rejects.toMatchObject({ type: 'GROUP_AUTHORIZATION_FAILED' })
})
