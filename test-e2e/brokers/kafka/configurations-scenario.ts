import { consumeKafka } from '@onceward/kafka'
import { kafka, until } from '@onceward/testing'
import {
  type Admin,
  AssignerProtocol,
  Kafka,
  logLevel,
  type PartitionAssigner,
  PartitionAssigners,
  type Producer,
} from 'kafkajs'
import { freshName } from '../../fuzz/configurations/postgres-scenario.ts'
import type { Order, Scenario } from '../../fuzz/configurations/scenario.ts'
import type { Servers } from '../../fuzz/configurations/servers.ts'
import { SharedDatabase } from '../../fuzz/configurations/shared-database.ts'
import type { KafkaSettings } from './configurations-grid.ts'

/** Brokers on a busy machine need longer than tests of dead brokers let them. */
const BROKER = { 'broker.session.timeout.ms': '9000' }

interface Clients {
  readonly client: Kafka
  readonly admin: Admin
  readonly producer: Producer
}

/** Clients of one cell: an admin remembers topics that another cell has deleted. */
async function connectTo(servers: Servers): Promise<Clients> {
  const server = await servers.of('kafka', () => kafka({ native: true, settings: BROKER }))
  const retry = { initialRetryTime: 50, maxRetryTime: 500, retries: 20 }
  const client = new Kafka({ ...server.connection, logLevel: logLevel.NOTHING, retry })
  const admin = client.admin()
  const producer = client.producer({ allowAutoTopicCreation: false })
  await Promise.all([admin.connect(), producer.connect()])
  return { client, admin, producer }
}

export async function openKafka(servers: Servers, settings: KafkaSettings): Promise<Scenario> {
  const shared = await SharedDatabase.of(servers)
  const { client, admin, producer } = await connectTo(servers)
  const topic = freshName()
  const dead = `${topic}.dead`
  await createTopic(admin, { topic, partitions: settings.partitions, entries: settings.topic })
  if (settings.hasDeadTopic) {
    await createTopic(admin, { topic: dead, partitions: 1, entries: settings.deadTopic })
  }
  const sender = await senderOf(client, settings, topic)
  let transactions = 0
  return {
    consumer: topic,
    operator: shared.pool,
    schema: 'onceward',
    createGuard: (handle, logger) =>
      shared.createGuard({
        ...{ consumer: topic, transaction: settings.transaction, handle, logger },
      }),
    consume: (guard) =>
      consumeKafka(client, guard, {
        topics: [topic],
        deadLetter: { producer, topic: dead },
        consumer: {
          ...settings.consumer,
          ...(settings.assigner === 'own' ? { partitionAssigners: [ownAssigner] } : {}),
        },
        partitionsConsumedConcurrently: settings.partitionsConsumedConcurrently,
        drainMs: 2_000,
      }),
    send: async (orders) => {
      if (settings.producer === 'transactional') {
        transactions += 2
        await abort(sender, settings, topic, `aborted-${transactions}`)
      }
      await sendAll(sender, settings, topic, orders)
    },
    // The story does this between two consumers, when the group is empty.
    redeliver: () =>
      until(
        () =>
          admin.resetOffsets({ groupId: topic, topic, earliest: true }).then(
            () => true,
            () => false,
          ),
        { what: 'an empty group', deadlineMs: 30_000 },
      ).then(() => undefined),
    depth: () => depthOf(admin, topic, 2 * transactions),
    published: () => readAll(client, admin, dead),
    close: async () => {
      await sender.disconnect()
      const topics = settings.hasDeadTopic ? [topic, dead] : [topic]
      await admin.deleteTopics({ topics })
      await Promise.all([admin.disconnect(), producer.disconnect()])
    },
  }
}

interface NewTopic {
  readonly topic: string
  readonly partitions: number
  readonly entries: Readonly<Record<string, string>>
}

async function createTopic(admin: Admin, { topic, partitions, entries }: NewTopic): Promise<void> {
  const configEntries = Object.entries(entries).map(([name, value]) => ({ name, value }))
  await admin.createTopics({
    waitForLeaders: false,
    topics: [{ topic, numPartitions: partitions, configEntries }],
  })
  // kafkajs gives up at once when a broker does not know the topic yet.
  const isThere = (): Promise<boolean> =>
    admin.fetchTopicOffsets(topic).then(
      (offsets) => offsets.length === partitions,
      () => false,
    )
  await until(isThere, { what: `the topic ${topic}`, deadlineMs: 30_000 })
}

async function senderOf(
  client: Kafka,
  { producer }: KafkaSettings,
  topic: string,
): Promise<Producer> {
  const idempotent = { idempotent: true, maxInFlightRequests: 1 }
  const sender = client.producer({
    allowAutoTopicCreation: false,
    ...(producer === 'plain' ? {} : idempotent),
    ...(producer === 'transactional' ? { transactionalId: topic } : {}),
  })
  await sender.connect()
  return sender
}

const messagesOf = (
  orders: readonly Order[],
  { hasKeys }: KafkaSettings,
): { key: string | null; value: string }[] =>
  orders.map((order) => ({ key: hasKeys ? order.id : null, value: JSON.stringify(order) }))

async function sendAll(
  sender: Producer,
  settings: KafkaSettings,
  topic: string,
  orders: readonly Order[],
): Promise<void> {
  const messages = messagesOf(orders, settings)
  if (settings.producer !== 'transactional') {
    await sender.send({ topic, acks: -1, messages })
    return
  }
  const transaction = await sender.transaction()
  await transaction.send({ topic, messages })
  await transaction.commit()
}

/** An event that its producer took back: it must have no effect. */
async function abort(
  sender: Producer,
  settings: KafkaSettings,
  topic: string,
  id: string,
): Promise<void> {
  const transaction = await sender.transaction()
  await transaction.send({ topic, messages: messagesOf([{ id }], settings) })
  await transaction.abort()
}

/**
 * Records that the group has not passed.
 *
 * @param unseen - Places at the end of a partition that no consumer ever sees: marks of transactions, and what was
 * taken back.
 */
async function depthOf(admin: Admin, topic: string, unseen: number): Promise<number> {
  const [ends, [group]] = await Promise.all([
    admin.fetchTopicOffsets(topic),
    admin.fetchOffsets({ groupId: topic, topics: [topic] }),
  ])
  const committed = new Map(group?.partitions.map((each) => [each.partition, Number(each.offset)]))
  return ends.reduce((sum, { partition, high, low }) => {
    const from = Math.max(Number(low), committed.get(partition) ?? 0)
    return sum + Math.max(0, Number(high) - from - unseen)
  }, 0)
}

/** All dead letters of a topic, in each call from its start. */
async function readAll(client: Kafka, admin: Admin, topic: string): Promise<readonly string[]> {
  const ends = await admin.fetchTopicOffsets(topic)
  const count = ends.reduce((sum, { high }) => sum + Number(high), 0)
  const found: string[] = []
  if (count === 0) return found
  const consumer = client.consumer({ groupId: freshName(), maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message: { value } }) =>
      void found.push(String(JSON.parse(String(value)).id)),
  })
  await until(() => found.length >= count, { what: `${count} dead letters`, deadlineMs: 30_000 })
  await consumer.disconnect()
  return found
}

/** As a user would write one: under a name of its own. */
const ownAssigner: PartitionAssigner = (config) => {
  const assigner = PartitionAssigners.roundRobin(config)
  const name = 'OwnAssigner'
  return {
    ...assigner,
    name,
    protocol: ({ topics }) => ({
      name,
      metadata: AssignerProtocol.MemberMetadata.encode({
        version: assigner.version,
        topics,
        userData: Buffer.alloc(0),
      }),
    }),
  }
}
