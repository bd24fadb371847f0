import fc from 'fast-check'
import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { lookOf, topicIds } from './topic-ids.ts'

interface Exchange {
  readonly request: { encode(): Promise<{ readonly buffer: Buffer }> }
  readonly response: {
    decode(payload: Buffer): Promise<object>
    parse(decoded: object): Promise<object>
  }
}

const clusterWith = (broker: object, more: object = {}): Cluster =>
  ({ brokerPool: { findConnectedBroker: async () => broker }, ...more }) as unknown as Cluster

function clusterOf(maxVersion: number, payload: Buffer): { cluster: Cluster; sent: Buffer[] } {
  const sent: Buffer[] = []
  const send = async ({ request, response }: Exchange): Promise<object> => {
    sent.push((await request.encode()).buffer)
    return response.parse(await response.decode(payload))
  }
  const broker = { versions: { 3: { maxVersion } }, connectionPool: { send } }
  return { cluster: clusterWith(broker), sent }
}

/** A length: seven bits in each byte, the lowest first. */
function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) + 0x80, ...varint(Math.floor(value / 0x80))]
}

const int16 = (value: number): number[] => [(value >> 8) & 0xff, value & 0xff]
const int32 = (value: number): number[] => [...int16(value >> 16), ...int16(value & 0xffff)]
const text = (value: string): number[] => [...varint(value.length + 1), ...Buffer.from(value)]
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
  expect([...((await lookOf(cluster)('all'))?.ids.keys() ?? [])]).toEqual(['orders'])
  expect([...(sent[0] ?? [])]).toEqual([0, 0, 0, 0, 0])
})

const list = (items: readonly (readonly number[])[]): number[] => [
  ...varint(items.length + 1),
  ...items.flat(),
]
const tags = (lengths: readonly number[]): number[] => [
  ...varint(lengths.length),
  ...lengths.flatMap((length, tag) => [
    ...varint(tag),
    ...varint(length),
    ...Array(length).fill(1),
  ]),
]

interface Answer {
  readonly topics: readonly { readonly name: string | null; readonly code: number }[]
  readonly replicas: number
  readonly tagged: readonly number[]
}

/** An answer to Metadata 12 with tagged fields, and with lists of any length. */
function answerOf({ topics, replicas, tagged }: Answer): Buffer {
  const broker = [...int32(1), ...text('127.0.0.1'), ...int32(9_092), ...text('rack')]
  const ids = list(Array.from({ length: replicas }, () => int32(1)))
  const partition = [...int16(0), ...int32(0), ...int32(1), ...int32(0), ...ids, ...ids, ...ids]
  const described = topics.map(({ name, code }, index) => [
    ...[...int16(code), ...(name === null ? [0] : text(name)), ...id(index), 0],
    ...[...list([[...partition, ...tags(tagged)]]), ...int32(0), ...tags(tagged)],
  ])
  return Buffer.from([
    ...[...tags(tagged), ...int32(0), ...list([[...broker, ...tags(tagged)]])],
    ...[...text('cluster-1'), ...int32(1), ...list(described), ...tags(tagged)],
  ])
}

const NAME = fc.oneof(
  fc.stringMatching(/^[a-z.]{1,12}$/),
  fc.integer({ min: 120, max: 249 }).map((length) => 'x'.repeat(length)),
)
const ANSWERS: fc.Arbitrary<Answer> = fc.record({
  topics: fc.uniqueArray(fc.record({ name: NAME, code: fc.constantFrom(0, 3, 5, 29) }), {
    ...{ maxLength: 5, selector: ({ name }) => name },
  }),
  replicas: fc.integer({ min: 0, max: 140 }),
  tagged: fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 3 }),
})

test('an answer is read however long its names, lists and tags are', async () => {
  const check = async (answer: Answer): Promise<void> => {
    const named = (code: number): (readonly [string, string])[] =>
      answer.topics.flatMap(({ name, code: own }, index) =>
        own === code && name !== null ? [[name, Buffer.from(id(index)).toString('hex')]] : [],
      )
    const names = (code: number): Set<string> => new Set(named(code).map(([name]) => name))
    expect(await topicIds(clusterOf(12, answerOf(answer)).cluster, 'all')).toEqual({
      ...{ clusterId: 'cluster-1', ids: new Map(named(0)) },
      ...{ missing: names(3), denied: names(29) },
    })
  }
  const none = { replicas: 3, tagged: [] }
  const each = (name: string | null) => [0, 3, 29].map((code) => ({ name, code }))
  // The lengths at which a number takes one more byte, and topics without a name.
  await check({ ...none, topics: [126, 127, 128].map((n) => ({ name: 'x'.repeat(n), code: 0 })) })
  await check({ ...none, topics: each(null) })
  await fc.assert(fc.asyncProperty(ANSWERS, check), { numRuns: 50 })
})

test('the request asks for hundreds of topics and for the longest names', async () => {
  const names = [126, 127, 249, ...Array(200).fill(1)].map((length) => 'x'.repeat(length))
  const { cluster, sent } = clusterOf(12, ANSWER)
  await topicIds(cluster, names)
  const asked = names.map((name) => [...id(0), ...text(name), 0])
  expect([...(sent[0] ?? [])]).toEqual([0, ...list(asked), 0, 0, 0])
})

const NEW = { 3: { maxVersion: 12 } }

test.each<[string, Cluster]>([
  ['an old broker', clusterOf(11, ANSWER).cluster],
  ['a cluster without brokers', {} as Cluster],
  ['a broker without versions', clusterWith({ connectionPool: { send: () => ({}) } })],
  [
    'a broker without Metadata',
    clusterWith({ versions: {}, connectionPool: { send: () => ({}) } }),
  ],
  ['a broker without connections', clusterWith({ versions: NEW })],
  ['connections without `send`', clusterWith({ versions: NEW, connectionPool: {} })],
])('%s gives no topic ids', async (_what, cluster) => {
  expect(await topicIds(cluster, ['orders'])).toBeUndefined()
})

test('kafkajs lists all topics of an old broker', async () => {
  const metadata = async () => ({ topicMetadata: [{ topic: 'orders' }, { topic: 'refunds' }] })
  const cluster = clusterWith({ versions: { 3: { maxVersion: 11 } } }, { metadata })
  expect([...((await lookOf(cluster)('all'))?.ids.keys() ?? [])]).toEqual(['orders', 'refunds'])
})
