import { kafka } from '@onceward/testing'
import { type Admin, Kafka, logLevel } from 'kafkajs'
import { openScenario, type SampleQueue, type SampleServer } from '../../support/samples.ts'

/** As the samples call their topic and their group. */
const TOPIC = 'orders'
const GROUP = 'billing'

export async function startSamples(): Promise<SampleServer> {
  const server = await kafka()
  const { brokers } = server.connection
  const client = new Kafka({ brokers, logLevel: logLevel.NOTHING })
  const admin = client.admin()
  await admin.connect()
  const topics = [TOPIC, `${TOPIC}.dead`].map((topic) => ({ topic, numPartitions: 2 }))
  await admin.createTopics({ topics })
  await admin.disconnect()
  return { openQueue: () => openQueue(client, brokers[0]), stop: () => server.stop() }
}

async function openQueue(client: Kafka, broker: string | undefined): Promise<SampleQueue> {
  const scenario = await openScenario({ KAFKA_BROKER: broker })
  const admin = client.admin()
  const producer = client.producer()
  await Promise.all([admin.connect(), producer.connect()])
  return {
    scenario,
    send: async (order) => {
      const messages = [{ key: 'account-1', value: JSON.stringify(order) }]
      await producer.send({ topic: TOPIC, messages })
    },
    waiting: () => uncommitted(admin),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([admin.disconnect(), producer.disconnect()])
      await scenario[Symbol.asyncDispose]()
    },
  }
}

async function uncommitted(admin: Admin): Promise<number> {
  const ends = await admin.fetchTopicOffsets(TOPIC)
  const [group] = await admin.fetchOffsets({ groupId: GROUP, topics: [TOPIC] })
  const committed = (partition: number): number =>
    Number(group?.partitions.find((each) => each.partition === partition)?.offset ?? 0)
  return ends.reduce(
    (sum, { partition, high }) => sum + Number(high) - Math.max(0, committed(partition)),
    0,
  )
}
