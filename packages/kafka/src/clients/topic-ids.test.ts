import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { allTopics, topicIds } from './topic-ids.ts'

interface Exchange {
  readonly request: { encode(): Promise<{ readonly buffer: Buffer }> }
  readonly response: { decode(payload: Buffer): Promise<object> }
}

const clusterWith = (broker: object): Cluster =>
  ({ brokerPool: { findConnectedBroker: async () => broker } }) as unknown as Cluster

function clusterOf(maxVersion: number, payload: Buffer): { cluster: Cluster; sent: Buffer[] } {
  const sent: Buffer[] = []
  const send = async ({ request, response }: Exchange): Promise<object> => {
    sent.push((await request.encode()).buffer)
    return response.decode(payload)
  }
  const broker = { versions: { 3: { maxVersion } }, connectionPool: { send } }
  return { cluster: clusterWith(broker), sent }
}

const int16 = (value: number): number[] => [(value >> 8) & 0xff, value & 0xff]
const int32 = (value: number): number[] => [...int16(value >> 16), ...int16(value & 0xffff)]
const text = (value: string): number[] => [value.length + 1, ...Buffer.from(value)]
const id = (byte: number): number[] => Array.from({ length: 16 }, () => byte)

/** Metadata 12 as Kafka 4.3 answers it, one field each line. */
const ANSWER = Buffer.from([
  ...[0], // header: no tags
  ...int32(0), // throttled, ms
  ...[2, ...int32(1), ...text('127.0.0.1'), ...int32(9_092), 0, 0], // one broker, no rack, no tags
  ...text('cluster-1'),
  ...int32(1), // controller
  ...[3], // two topics
  ...[...int16(0), ...text('orders'), ...id(7), 0],
  ...[2, ...int16(0), ...int32(0), ...int32(1), ...int32(0)], // one partition
  ...[2, ...int32(1), 2, ...int32(1), 1, 0], // replicas, in sync, none offline, no tags
  ...[...int32(-2147483648), 0],
  ...[...int16(3), ...text('gone'), ...id(0), 0, 1, ...int32(-2147483648), 0],
  ...[0],
])

test('the request asks for topics by name, in the protocol version that has topic ids', async () => {
  const { cluster, sent } = clusterOf(13, ANSWER)
  expect(await topicIds(cluster, ['orders', 'gone'])).toEqual({
    clusterId: 'cluster-1',
    ids: new Map([['orders', '07'.repeat(16)]]),
    missing: new Set(['gone']),
    denied: new Set(),
  })
  expect([...(sent[0] ?? [])]).toEqual([
    ...[0, 3],
    ...[...id(0), ...text('orders'), 0],
    ...[...id(0), ...text('gone'), 0],
    ...[0, 0, 0],
  ])
})

// Red when kafkajs lists them: it fails while a single partition of the cluster has no leader.
test('all topics are listed, also those whose partitions have errors', async () => {
  const leaderless = Buffer.from(ANSWER)
  leaderless[leaderless.indexOf(Buffer.from(id(7))) + 16 + 1 + 1 + 1] = 5
  const { cluster, sent } = clusterOf(12, leaderless)
  expect(await allTopics(cluster)).toEqual(['orders'])
  expect([...(sent[0] ?? [])]).toEqual([0, 0, 0, 0, 0])
})

test('an old broker or another version of kafkajs gives no topic ids', async () => {
  expect(await topicIds(clusterOf(11, ANSWER).cluster, ['orders'])).toBeUndefined()
  const cluster = clusterWith({})
  expect(await topicIds(cluster, ['orders'])).toBeUndefined()
})
