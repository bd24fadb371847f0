import { randomUUID } from 'node:crypto'
import { consumeKafka } from '@onceward/kafka'
import { platformatic } from '@onceward/kafka/platformatic'
import { kafka } from '@onceward/testing'
import type { KafkaConnection } from '@onceward/testing/servers'
import { Kafka, logLevel } from 'kafkajs'
import {
  handleOf,
  type KafkaClientHandle,
  portOfHandle,
} from '../../../packages/kafka/src/clients/handle.ts'
import { PlatformaticConsumer } from '../../../packages/kafka/src/clients/platformatic/consumer.ts'
import { type FailedStart, type FailedStartSubject, network } from '../../support/failed-start.ts'
import { type FailingStep, withFailingStep } from '../../support/failing-step.ts'

export const failedStarts: readonly FailedStart[] = [
  { title: 'Kafka', start: onKafka },
  { title: 'Kafka with platformatic', start: onPlatformatic },
]

const GROUP_ERRORS: FailedStartSubject['errors'] = {
  network,
  forbidden: () =>
    Object.assign(new Error('no'), {
      name: 'KafkaJSProtocolError',
      type: 'GROUP_AUTHORIZATION_FAILED',
      retriable: false,
    }),
}

const ADMIN = ['listTopics', 'fetchTopicMetadata', 'describeConfigs', 'describeGroups']
const OFFSETS = ['fetchTopicOffsets', 'fetchOffsets', 'setOffsets', 'describeCluster']

const kafkajs = (connection: KafkaConnection): Kafka =>
  new Kafka({
    ...{ ...connection, logLevel: logLevel.NOTHING },
    retry: { initialRetryTime: 10, retries: 1 },
  })

async function newTopic(client: Kafka): Promise<string> {
  const admin = client.admin()
  await admin.connect()
  const topic = `start-${randomUUID()}`
  await admin.createTopics({ timeout: 25_000, topics: [{ topic, numPartitions: 1 }] })
  await admin.disconnect()
  return topic
}

async function onKafka(): Promise<FailedStartSubject> {
  const server = await kafka()
  const client = kafkajs(server.connection)
  const topic = await newTopic(client)
  const names = {
    steps: ['connect', 'subscribe', 'run', ...ADMIN, ...OFFSETS],
    factories: ['admin', 'consumer'],
  }
  return {
    errors: GROUP_ERRORS,
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

const VIEW = ['unseen', 'topicNames', 'topicConfigs', 'replicas', 'consumersOf']
const PULLED = ['connect', 'topicIds', 'startAtEnds', 'subscribe', 'committed', 'oldest', 'seek']

/** What asks the broker is behind the port of the adapter. */
async function onPlatformatic(): Promise<FailedStartSubject> {
  const server = await kafka()
  const topic = await newTopic(kafkajs(server.connection))
  const options = { clientId: 'start', bootstrapBrokers: server.connection.brokers, retries: 1 }
  const port = portOfHandle(platformatic(options))
  if (port === undefined) throw new Error('no client of onceward')
  const failing = (step: FailingStep): KafkaClientHandle =>
    handleOf({
      ...port,
      ask: (ask, given) =>
        port.ask((view) => ask(withFailingStep(view, { steps: VIEW }, () => step)), given),
      consumers: () => (given, events) => {
        const consumer = new PlatformaticConsumer(options, given, events)
        return withFailingStep(consumer, { steps: PULLED }, () => step)
      },
    })
  return {
    errors: GROUP_ERRORS,
    emitters: () => ({}),
    consume: ({ guard, signal, step }) =>
      consumeKafka(failing(step), guard, {
        ...{ topics: [topic], groupId: randomUUID(), signal, drainMs: 1_000 },
        consumer: { sessionTimeout: 6_000 },
      }),
    stop: () => server.stop(),
  }
}
