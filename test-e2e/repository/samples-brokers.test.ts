import {
  type KafkaConnection,
  kafka,
  type RabbitmqConnection,
  rabbitmq,
  type Server,
  until,
} from '@onceward/testing'
import { connect } from 'amqplib'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openScene, run, runToEnd, type SampleScene, terminate } from '../support/samples.ts'

const ORDER = { orderId: 'order-1', accountId: 1, cents: 1_999 }
const CHARGE = { order_id: 'order-1', cents: 1_999 }

interface Broker {
  readonly scene: SampleScene
  /** Sends the order; each call the same. */
  readonly place: (order: object) => Promise<void>
  /** What is not acknowledged yet, as far as the broker tells while a consumer runs. */
  readonly waiting: () => Promise<number>
}

const charges = async ({ pool }: SampleScene): Promise<unknown[]> =>
  (await pool.query('select * from charges')).rows

/** The order is sent twice; resolves when the sample has charged it so many `times` and ended at SIGTERM. */
async function runConsumer(name: string, times: number, broker: Broker): Promise<void> {
  const { scene, place, waiting } = broker
  await runToEnd('migrate', scene)
  await place(ORDER)
  await place(ORDER)
  await using sample = run(name, scene)
  await until(
    async () => {
      expect(sample.process.exitCode, sample.output()).toBeNull()
      return (await charges(scene)).length === times && (await waiting()) === 0
    },
    { what: `${name} to settle both`, deadlineMs: 120_000 },
  )
  expect(await terminate(sample), sample.output()).toBe(0)
}

describe('the samples for Kafka run as they are', () => {
  let server: Server<KafkaConnection>
  let client: Kafka
  beforeAll(async () => {
    server = await kafka()
    client = new Kafka({ brokers: server.connection.brokers, logLevel: logLevel.NOTHING })
    const admin = client.admin()
    await admin.connect()
    const topics = ['orders', 'orders.dead'].map((topic) => ({ topic, numPartitions: 2 }))
    await admin.createTopics({ topics })
    await admin.disconnect()
  })
  afterAll(() => server?.stop())

  async function openTopic() {
    const scene = await openScene({ KAFKA_BROKER: server.connection.brokers[0] })
    const admin = client.admin()
    const producer = client.producer()
    await Promise.all([admin.connect(), producer.connect()])
    const place = async (order: object): Promise<void> => {
      const messages = [{ key: 'account-1', value: JSON.stringify(order) }]
      await producer.send({ topic: 'orders', messages })
    }
    const waiting = async (): Promise<number> => {
      const ends = await admin.fetchTopicOffsets('orders')
      const [group] = await admin.fetchOffsets({ groupId: 'billing', topics: ['orders'] })
      const committed = (partition: number): number =>
        Number(group?.partitions.find((each) => each.partition === partition)?.offset ?? 0)
      return ends.reduce((sum, { partition, high }) => {
        return sum + Number(high) - Math.max(0, committed(partition))
      }, 0)
    }
    const close = async (): Promise<void> => {
      await Promise.all([admin.disconnect(), producer.disconnect()])
      await scene[Symbol.asyncDispose]()
    }
    return { scene, place, waiting, [Symbol.asyncDispose]: close }
  }

  test.each(['kafka-pg', 'kafka-wrap'])(
    '%s charges an order that was sent twice once',
    async (name) => {
      await using topic = await openTopic()
      await runConsumer(name, 1, topic)
      expect(await charges(topic.scene)).toEqual([CHARGE])
    },
  )

  test('kafka-before, which has no guard, charges it twice', async () => {
    await using topic = await openTopic()
    await runConsumer('kafka-before', 2, topic)
    expect(await charges(topic.scene)).toEqual([CHARGE, CHARGE])
  })
})

describe('the samples for RabbitMQ run as they are', () => {
  let server: Server<RabbitmqConnection>
  beforeAll(async () => {
    server = await rabbitmq()
  })
  afterAll(() => server?.stop())

  async function openQueue() {
    const { url } = server.connection
    const scene = await openScene({ RABBITMQ_URL: url })
    expect(await runToEnd('amqp-topology', scene)).toContain('orders.retry.1000')
    const connection = await connect(url)
    const channel = await connection.createConfirmChannel()
    // A sample may have ended with the second copy in hand.
    await channel.purgeQueue('orders')
    const place = async (order: object): Promise<void> => {
      channel.sendToQueue('orders', Buffer.from(JSON.stringify(order)), { persistent: true })
      await channel.waitForConfirms()
    }
    const waiting = async (): Promise<number> => (await channel.checkQueue('orders')).messageCount
    const close = async (): Promise<void> => {
      await connection.close()
      await scene[Symbol.asyncDispose]()
    }
    return { scene, place, waiting, [Symbol.asyncDispose]: close }
  }

  test.each(['amqp-pg', 'amqp-wrap'])(
    '%s charges an order that was sent twice once',
    async (name) => {
      await using queue = await openQueue()
      await runConsumer(name, 1, queue)
      expect(await charges(queue.scene)).toEqual([CHARGE])
      // What was in hand when the sample ended is back by now, if it was not acknowledged.
      expect(await queue.waiting()).toBe(0)
    },
  )

  test('amqp-before, which has no guard, charges it twice', async () => {
    await using queue = await openQueue()
    await runConsumer('amqp-before', 2, queue)
    expect(await charges(queue.scene)).toEqual([CHARGE, CHARGE])
  })
})
