import type { KafkaConnection } from '@onceward/testing'
import { until } from '@onceward/testing'
import { type Admin, Kafka, logLevel, type Producer } from 'kafkajs'
import type { Order, Source } from '../../support/workers/protocol.ts'
import type { QueueNeeds } from '../broker.ts'
import type { OperatorAddress, QueueUnderTest } from '../queue-under-test.ts'
import { type ClientName, drawnClient } from './clients.ts'

/** Partitions of the topic. */
export const PARTITIONS = 4

const SEND_SIZE = 500

export interface KafkaSource extends Source {
  readonly kind: 'kafka'
  readonly connection: KafkaConnection
  readonly topic: string
  /** Default: as the adapter names it. */
  readonly groupId?: string | undefined
  readonly deadTopic: string
  /** A member that is silent for so long is removed from its group, ms. */
  readonly sessionMs: number
  /** Of the workers. */
  readonly client: ClientName
  /** Default: the key. */
  readonly identity?: 'offsets' | undefined
}

/** A topic with its dead-letter topic. The workers' group has the topic's name. */
export interface Topic extends QueueUnderTest {
  readonly source: KafkaSource & { readonly groupId: string }
  sendTo(partition: number, orders: readonly Order[]): Promise<void>
  /** For each partition the committed offset of the group and the end of the log. */
  offsets(): Promise<readonly { readonly committed: number; readonly end: number }[]>
  /** How many members the group has. All workers have the same client id. */
  members(): Promise<number>
  remove(): Promise<void>
  create(): Promise<void>
}

export interface TopicOptions extends QueueNeeds {
  readonly sessionMs?: number | undefined
  readonly groupId?: string | undefined
  readonly identity?: 'offsets' | undefined
  /** Default: one that the seed of the commit draws. */
  readonly client?: ClientName | undefined
}

/** The native client does not write through Node's sockets. */
function drawnFor(isWatched = false): ClientName {
  const drawn = drawnClient()
  return isWatched && drawn.startsWith('confluent') ? 'platformatic' : drawn
}

export async function createTopic(
  connection: KafkaConnection,
  name: string,
  {
    isWatched,
    client: worker = drawnFor(isWatched),
    sessionMs = 2_000,
    groupId = name,
    identity,
  }: TopicOptions = {},
): Promise<Topic> {
  // Brokers are killed while this client runs.
  const retry = { initialRetryTime: 100, maxRetryTime: 1_000, retries: 1_000 }
  const client = new Kafka({ ...connection, clientId: 'test', logLevel: logLevel.NOTHING, retry })
  const admin = client.admin()
  const producer = client.producer({ allowAutoTopicCreation: false })
  await Promise.all([admin.connect(), producer.connect()])
  const deadTopic = `${name}-dead`
  const create = async (topic: string, numPartitions: number): Promise<void> => {
    const topics = [{ topic, numPartitions }]
    await admin.createTopics({ waitForLeaders: false, timeout: 25_000, topics })
    // kafkajs gives up at once when a broker does not know the topic yet.
    const isThere = async (): Promise<boolean> =>
      (await admin.fetchTopicOffsets(topic)).length === numPartitions
    await until(isThere, { what: `the topic ${topic}`, deadlineMs: 60_000 })
  }
  await create(deadTopic, 1)
  await create(name, PARTITIONS)
  const of = { topic: name, groupId, deadTopic, sessionMs, identity }
  const source = { kind: 'kafka', connection, client: worker, ...of } as const
  const offsets = (): ReturnType<Topic['offsets']> => offsetsOf(admin, source)
  return {
    source,
    operator: kafkaAddress(connection),
    send: (orders) => send(producer, name, orders),
    sendTo: (partition, orders) => send(producer, name, orders, partition),
    offsets,
    depth: async () =>
      (await offsets()).reduce((sum, { committed, end }) => sum + end - committed, 0),
    deadLetters: () => readAll(client, admin, deadTopic),
    members: () => membersOf(admin, { ...source, groupId }),
    remove: () => admin.deleteTopics({ topics: [name] }),
    create: () => create(name, PARTITIONS),
    close: async () => {
      await Promise.all([admin.disconnect(), producer.disconnect()])
    },
  }
}

/** How the command line names this Kafka. */
export const kafkaAddress = ({ brokers }: KafkaConnection): OperatorAddress => ({
  address: `kafka://${brokers.join(',')}`,
  env: {},
})

async function send(
  producer: Producer,
  topic: string,
  orders: readonly Order[],
  partition?: number,
): Promise<void> {
  const messages = orders.map((order) => ({
    key: order.lane ?? order.id,
    value: JSON.stringify(order),
    ...(partition === undefined ? {} : { partition }),
  }))
  for (let from = 0; from < messages.length; from += SEND_SIZE) {
    await producer.send({ topic, acks: -1, messages: messages.slice(from, from + SEND_SIZE) })
  }
}

async function offsetsOf(
  admin: Admin,
  { topic, groupId }: Topic['source'],
): ReturnType<Topic['offsets']> {
  const ends = await admin.fetchTopicOffsets(topic)
  const [group] = await admin.fetchOffsets({ groupId, topics: [topic] })
  const committed = new Map(group?.partitions.map((each) => [each.partition, Number(each.offset)]))
  return ends
    .toSorted((a, b) => a.partition - b.partition)
    .map(({ partition, low, high }) => ({
      // -1: nothing is committed yet.
      committed: Math.max(Number(low), committed.get(partition) ?? -1),
      end: Number(high),
    }))
}

type DeadLetters = Awaited<ReturnType<QueueUnderTest['deadLetters']>>

/** Reads all dead letters, in each call from the start. */
/** kafkajs describes no group with the protocol of KIP-848. */
async function membersOf(
  admin: Admin,
  { client, connection, groupId }: KafkaSource & { readonly groupId: string },
): Promise<number> {
  if (!client.endsWith('848')) {
    return (await admin.describeGroups([groupId])).groups[0]?.members.length ?? 0
  }
  const { Connection, consumerGroupDescribeV0 } = await import('@platformatic/kafka')
  const [host = '', port] = connection.brokers[0]?.split(':') ?? []
  const broker = new Connection('test')
  await broker.connect(host, Number(port))
  try {
    const { groups } = await consumerGroupDescribeV0.api.async(broker, [groupId], false)
    return groups[0]?.members.length ?? 0
  } finally {
    await broker.close()
  }
}

async function readAll(client: Kafka, admin: Admin, topic: string): Promise<DeadLetters> {
  const ends = await admin.fetchTopicOffsets(topic)
  const count = ends.reduce((sum, { high }) => sum + Number(high), 0)
  const found: DeadLetters[number][] = []
  if (count === 0) return found
  const consumer = client.consumer({ groupId: `${topic}-${Date.now()}`, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message: { value, headers = {} } }) => {
      const reason = headers['x-onceward-reason']?.toString()
      found.push({ id: JSON.parse(String(value)).id, reason })
    },
  })
  await until(() => found.length >= count, { what: `${count} dead letters`, deadlineMs: 60_000 })
  await consumer.disconnect()
  return found
}
