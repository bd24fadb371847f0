import { randomUUID } from 'node:crypto'
import { consumeKafka } from '@onceward/kafka'
import { kafka } from '@onceward/testing'
import { Kafka, logLevel } from 'kafkajs'
import { type FailedStart, type FailedStartSubject, network } from '../../support/failed-start.ts'
import { withFailingStep } from '../../support/failing-step.ts'

export const failedStarts: readonly FailedStart[] = [{ title: 'Kafka', start: onKafka }]

const ADMIN = ['listTopics', 'fetchTopicMetadata', 'describeConfigs', 'describeGroups']
const OFFSETS = ['fetchTopicOffsets', 'fetchOffsets', 'setOffsets', 'describeCluster']

async function onKafka(): Promise<FailedStartSubject> {
  const server = await kafka()
  const client = new Kafka({
    ...{ ...server.connection, logLevel: logLevel.NOTHING },
    retry: { initialRetryTime: 10, retries: 1 },
  })
  const admin = client.admin()
  await admin.connect()
  const topic = `start-${randomUUID()}`
  await admin.createTopics({ timeout: 25_000, topics: [{ topic, numPartitions: 1 }] })
  await admin.disconnect()
  const names = {
    steps: ['connect', 'subscribe', 'run', ...ADMIN, ...OFFSETS],
    factories: ['admin', 'consumer'],
  }
  return {
    errors: {
      network,
      forbidden: () =>
        Object.assign(new Error('no'), {
          name: 'KafkaJSProtocolError',
          type: 'GROUP_AUTHORIZATION_FAILED',
          retriable: false,
        }),
    },
    emitters: () => ({}),
    consume: ({ guard, signal, step }) =>
      consumeKafka(
        withFailingStep(client, names, () => step),
        guard,
        {
          ...{ topics: [topic], groupId: randomUUID(), signal, drainMs: 1_000 },
          consumer: { sessionTimeout: 6_000 },
        },
      ),
    stop: () => server.stop(),
  }
}
