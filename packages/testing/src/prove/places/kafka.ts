import { type Admin, Kafka, type KafkaConfig, logLevel, type Producer } from 'kafkajs'
import { until } from '../../until.ts'
import type { Place, PlaceMessage } from './place.ts'

const PARTITIONS = 4
/** Groups that are asked when the consumer has another one than it was given. */
const MOST_GROUPS = 200

/** A new topic. Its messages have keys, so that they are spread over the partitions. */
export async function kafkaPlace(
  config: Omit<KafkaConfig, 'brokers'> & { readonly brokers: readonly string[] },
  name: string,
): Promise<Place<'kafka'>> {
  const brokers = [...config.brokers]
  const client = new Kafka({ ...config, brokers, clientId: name, logLevel: logLevel.NOTHING })
  const admin = client.admin()
  const producer = client.producer({ allowAutoTopicCreation: false })
  const close = async (): Promise<void> => {
    await Promise.allSettled([admin.disconnect(), producer.disconnect()])
  }
  const where = { brokers, topic: name, groupId: name, deadLetterTopic: `${name}-dead` }
  try {
    await Promise.all([admin.connect(), producer.connect()])
    await createTopic(admin, where.deadLetterTopic, 1)
    await createTopic(admin, name, PARTITIONS)
  } catch (error) {
    await close()
    throw error
  }
  return {
    where,
    variables: {
      ...{ KAFKA_BROKERS: brokers.join(','), KAFKA_BROKER: brokers[0] ?? '' },
      ...{ TOPIC: name, GROUP_ID: name, DEAD_LETTER_TOPIC: where.deadLetterTopic },
    },
    send: (messages) => send(producer, name, messages),
    waiting: () => lagOf(admin, where),
    dead: async () => sum((await admin.fetchTopicOffsets(where.deadLetterTopic)).map(lengthOf)),
    [Symbol.asyncDispose]: async () => {
      await admin.deleteTopics({ topics: [name, where.deadLetterTopic] }).catch(() => undefined)
      await close()
    },
  }
}

async function createTopic(admin: Admin, topic: string, numPartitions: number): Promise<void> {
  const topics = [{ topic, numPartitions }]
  await admin.createTopics({ waitForLeaders: false, timeout: 25_000, topics })
  // kafkajs gives up at once when a broker does not know the topic yet.
  const isThere = async (): Promise<boolean> =>
    (await admin.fetchTopicOffsets(topic)).length === numPartitions
  await until(isThere, { what: `the topic ${topic}`, deadlineMs: 60_000 })
}

async function send(
  producer: Producer,
  topic: string,
  messages: readonly PlaceMessage[],
): Promise<void> {
  if (messages.length === 0) return
  // A copy comes to the partition of its original.
  await producer.send({
    topic,
    messages: messages.map(({ body, headers }) => ({ key: body, value: body, headers })),
  })
}

interface Offset {
  readonly partition: number
  readonly low: string
  readonly high: string
}

const lengthOf = ({ high, low }: Offset): number => Number(high) - Number(low)

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)

/** Records that no group has committed. */
async function lagOf(
  admin: Admin,
  { groupId, topic }: { readonly groupId: string; readonly topic: string },
): Promise<number> {
  const ends = await admin.fetchTopicOffsets(topic)
  const own = await committedBy(admin, groupId, topic)
  const committed = own.size > 0 ? own : await committedByOthers(admin, topic)
  return sum(
    ends.map(({ high, low, partition }) =>
      Math.max(0, Number(high) - Math.max(Number(low), committed.get(partition) ?? 0)),
    ),
  )
}

type Committed = ReadonlyMap<number, number>

async function committedBy(admin: Admin, groupId: string, topic: string): Promise<Committed> {
  const [group] = await admin.fetchOffsets({ groupId, topics: [topic] })
  const partitions = (group?.partitions ?? []).map(
    ({ offset, partition }) => [partition, Number(offset)] as const,
  )
  // -1: nothing is committed yet.
  return new Map(partitions.filter(([, offset]) => offset >= 0))
}

/** The consumer may have a group of its own. */
async function committedByOthers(admin: Admin, topic: string): Promise<Committed> {
  const { groups } = await admin.listGroups()
  for (const { groupId } of groups.slice(0, MOST_GROUPS)) {
    const found = await committedBy(admin, groupId, topic)
    if (found.size > 0) return found
  }
  return new Map()
}
