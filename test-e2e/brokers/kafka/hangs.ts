import { connect } from 'node:net'
import { consumeKafka, type WrappedKafka, wrapKafka } from '@onceward/kafka'
import type { TcpProxy } from '@onceward/testing'
import { type Consumer, Kafka, type KafkaConfig, logLevel, type Producer } from 'kafkajs'
import { addressOf } from '../../fuzz/hangs/address.ts'
import {
  DRAIN_MS,
  type HangBroker,
  loop,
  type Subject,
  type SubjectParts,
  soon,
} from '../../fuzz/hangs/subject.ts'
import type { Topic } from './queue.ts'
import { startKafka } from './server.ts'

/** The longest that a request of a wrapped consumer takes; the default of kafkajs is half a minute. */
const REQUEST_MS = 4_000

/** What the group waits for a silent member, ms. */
const SESSION_MS = 3_000

/** kafkajs waits as long as an outage lasts (brokers.md K21). */
const LEAVE_MS = 3_000

/** The broker with the consumers of its adapter. */
export async function startHangBroker(): Promise<HangBroker> {
  const running = await startKafka({ sessionMs: SESSION_MS })
  const { brokers } = running.server.connection as { readonly brokers: readonly string[] }
  return {
    server: running.server,
    address: addressOf(`kafka://${brokers[0]}`),
    createQueue: () => running.createQueue(),
    start: (parts) => startSubject(parts as SubjectParts<Topic>),
  }
}

async function startSubject(parts: SubjectParts<Topic>): Promise<Subject> {
  const { queue, guard, links, isWrapped } = parts
  const { topic, groupId, deadTopic, sessionMs } = queue.source
  const clientOf = (link: TcpProxy | undefined, more: Partial<KafkaConfig> = {}): Kafka =>
    new Kafka({
      ...queue.source.connection,
      ...{ clientId: 'hangs', logLevel: logLevel.NOTHING },
      // Settings that do not depend on NODE_ENV (brokers.md K25). kafkajs cannot abort a connect, so its retries may not
      // outlast what the judge allows for timers.
      retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 20 },
      ...(link === undefined ? {} : through(link)),
      ...more,
    })
  const retry = { initialRetryTime: 100, maxRetryTime: 500, retries: 3 }
  // A send that is retried for longer connects again after the producer was disconnected.
  const publishing = clientOf(links?.publish, { requestTimeout: REQUEST_MS, retry })
  const producer: Producer = publishing.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  const deadLetter = { producer, topic: deadTopic }
  const times = { sessionTimeout: sessionMs, rebalanceTimeout: sessionMs }
  if (!isWrapped) {
    const consumption = await consumeKafka(clientOf(links?.broker), guard, {
      ...{ topics: [topic], groupId, fromBeginning: true, deadLetter, drainMs: DRAIN_MS },
      consumer: times,
    })
    return {
      health: () => consumption.health(),
      drain: () => consumption.drain(),
      close: () => producer.disconnect(),
    }
  }
  const client = clientOf(links?.broker, { requestTimeout: REQUEST_MS, retry })
  let now: { readonly consumer: Consumer; readonly wrapped: WrappedKafka } | undefined
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
  // The user makes a new consumer whenever kafkajs has ended one for good.
  const living = loop(async () => {
    const current = client.consumer({
      ...{ ...times, groupId, maxWaitTimeInMs: 500, heartbeatInterval: sessionMs / 5 },
      retry: { ...retry, restartOnFailure: async () => false },
    })
    const wrapped = wrapKafka(current, guard, { deadLetter })
    now = { consumer: current, wrapped }
    const crashed = new Promise<void>((resolve) => current.on('consumer.crash', () => resolve()))
    try {
      await current.connect()
      await current.subscribe({ topics: [topic], fromBeginning: true })
      await current.run(wrapped)
      await Promise.race([crashed, stopped])
    } finally {
      await soon(current.disconnect(), LEAVE_MS)
    }
  })
  return {
    health: () => now?.wrapped.consumption.health(),
    drain: async () => {
      void living.stop()
      // Before the consumer ends: the drain commits what it has settled.
      await now?.wrapped.consumption.drain()
      stop()
      await soon(now?.consumer.stop(), LEAVE_MS)
    },
    close: async () => {
      await living.stop()
      await producer.disconnect()
    },
  }
}

/** Whatever address the broker gives for itself, its clients come through the proxy. */
const through = ({ host, port }: TcpProxy): Pick<KafkaConfig, 'socketFactory'> => ({
  socketFactory: ({ onConnect }) => connect({ host, port }, onConnect),
})
