import { consumeKafka } from '@onceward/kafka'
import { openPlace } from '@onceward/testing/prove'
import { type KafkaConnection, kafka } from '@onceward/testing/servers'
import { kafkaRequest } from '@onceward/testing/wire'
import { type ConsumerConfig, Kafka, logLevel } from 'kafkajs'
import {
  loadRdkafka,
  type RdConsumer,
} from '../../../packages/kafka/src/clients/confluent/rdkafka.ts'
import { aborted, type DemoBroker, type DemoQueue, demoQueue } from '../../demo/demo-broker.ts'
import { ACK_LATENCY_MS, slowAcks } from '../../demo/network.ts'
import { tell } from '../../demo/signals.ts'
import { CLIENT_NAMES, type ClientName, openClient } from './clients.ts'

interface Address {
  readonly connection: KafkaConnection
  readonly topic: string
  readonly groupId: string
  readonly sessionMs: number
  readonly client: ClientName
}

/** A member that is silent for this long loses its partitions. Short, so that a dead process is replaced soon. */
const SESSION_MS = 4_000

/** The shortest session that a Kafka with default settings accepts. */
const LEAST_SESSION_MS = 6_000

/** The API key of OffsetCommit in the Kafka protocol. */
const OFFSET_COMMIT = 8

export const kafkaDemo: DemoBroker = {
  title: 'Kafka',
  clients: CLIENT_NAMES,
  start: async (client = 'kafkajs') => {
    const server = await kafka()
    const name = client as ClientName
    const sessionMs = server.how === 'environment' ? LEAST_SESSION_MS : SESSION_MS
    return {
      pauseMs: sessionMs + 2_000,
      openQueue: (topic) =>
        openTopic(server.connection, { topic, groupId: topic, sessionMs, client: name }),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    }
  },
  guarded: async ({ address, billing, signal }) => {
    const { client, connection, topic, groupId, sessionMs } = addressOf(address)
    if (client.startsWith('confluent')) slowNativeCommits()
    else slowAcks(kafkaRequest(OFFSET_COMMIT))
    const watched = await openClient(client, connection, {
      clientId: 'demo',
      onRecords: ({ length }) => tell({ kind: 'received', messages: length }),
    })
    const { stopped } = await consumeKafka(watched as Kafka, billing, {
      topics: [topic],
      groupId,
      fromBeginning: true,
      // librdkafka has other names for the rest.
      consumer: client === 'kafkajs' ? timing(sessionMs) : { sessionTimeout: sessionMs },
      signal,
    })
    await stopped
  },
  unguarded: async ({ address, charge, signal }) => {
    const { connection, topic, groupId, sessionMs } = addressOf(address)
    const consumer = overNetwork(connection).consumer({ groupId, ...timing(sessionMs) })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      eachMessage: ({ message }) => charge(JSON.parse(String(message.value))),
    })
    await aborted(signal)
    await consumer.disconnect()
  },
}

const addressOf = (address: string): Address => JSON.parse(address)

const timing = (sessionMs: number): Omit<ConsumerConfig, 'groupId'> => ({
  sessionTimeout: sessionMs,
  heartbeatInterval: 500,
  maxWaitTimeInMs: 500,
})

const clientOf = ({ brokers }: KafkaConnection): Kafka =>
  new Kafka({ brokers, clientId: 'demo', logLevel: logLevel.NOTHING })

/** The sockets of librdkafka are its own, so that its commits are slowed where it is asked for them. */
function slowNativeCommits(): void {
  const { prototype } = loadRdkafka().KafkaConsumer as unknown as { readonly prototype: RdConsumer }
  const { commitCb } = prototype
  prototype.commitCb = function (this: RdConsumer, positions, done) {
    tell({ kind: 'before-ack' })
    setTimeout(() => commitCb.call(this, positions, done), ACK_LATENCY_MS)
  }
}

/** The client of the worker without the guard, which is written with kafkajs: an ordinary one over a slow network that reports deliveries to the parent. */
function overNetwork(connection: KafkaConnection): Kafka {
  slowAcks(kafkaRequest(OFFSET_COMMIT))
  const client = clientOf(connection)
  const consumerOf = client.consumer.bind(client)
  client.consumer = (config) => {
    const consumer = consumerOf(config)
    consumer.on(consumer.events.START_BATCH_PROCESS, ({ payload: { batchSize } }) => {
      tell({ kind: 'received', messages: batchSize })
    })
    return consumer
  }
  return client
}

async function openTopic(
  connection: KafkaConnection,
  { topic, groupId, sessionMs, client }: Omit<Address, 'connection'>,
): Promise<DemoQueue> {
  const place = await openPlace({ broker: 'kafka', config: connection }, topic)
  const address = { connection, topic, groupId, sessionMs, client } satisfies Address
  return demoQueue(place, JSON.stringify(address))
}
