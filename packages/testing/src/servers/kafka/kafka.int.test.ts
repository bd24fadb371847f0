// @module-tag nightly

import { Kafka, logLevel } from 'kafkajs'
import { afterEach, expect, test, vi } from 'vitest'
import { until } from '../../until.ts'
import { skipped } from '../run/server.ts'
import { kafka } from './kafka.ts'

async function consumed(client: Kafka, topic: string): Promise<string[]> {
  const values: string[] = []
  const consumer = client.consumer({ groupId: `${topic}-readers`, sessionTimeout: 6_000 })
  await consumer.connect()
  try {
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ message }) => void values.push(String(message.value)),
    })
    await until(() => values.length > 0, { deadlineMs: 30_000 })
    return values
  } finally {
    await consumer.disconnect()
  }
}

afterEach(() => vi.unstubAllEnvs())

test.skipIf(skipped('kafka'))(
  'a killed Kafka restarts on its port with every record it acknowledged',
  { tags: 'nightly', timeout: 180_000 },
  async ({ skip }) => {
    await using server = await kafka()
    skip(!server.canKill, 'the server belongs to the user')
    const client = new Kafka({ ...server.connection, logLevel: logLevel.NOTHING })
    const admin = client.admin()
    await admin.connect()
    await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 2 }] })
    await admin.disconnect()
    const producer = client.producer()
    await producer.connect()
    await producer.send({ topic: 'orders', acks: -1, messages: [{ key: '1', value: 'charge' }] })
    await producer.disconnect()

    await server.kill('SIGKILL')
    expect(server.pid).toBeUndefined()

    await server.restart()
    expect(await consumed(client, 'orders')).toEqual(['charge'])

    vi.stubEnv('ONCEWARD_KAFKA_BROKERS', server.connection.brokers.join())
    await using theirs = await kafka()
    expect(theirs).toMatchObject({ how: 'environment', connection: server.connection })
  },
)
