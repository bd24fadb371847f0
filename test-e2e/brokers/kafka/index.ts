import { kafkaRequest } from '@onceward/testing/wire'
import type { BrokerDefinition, TestServer } from '../broker.ts'
import type { TopicOptions } from './queue.ts'

const server = (options: TopicOptions = {}): TestServer => ({
  title: 'Kafka',
  service: 'kafka',
  start: async () => (await import('./server.ts')).startKafka(options),
})

const PRODUCE = 0
const OFFSET_COMMIT = 8

export const kafka: BrokerDefinition = {
  title: 'Kafka',
  service: 'kafka',
  needs: 'java',
  traits: {
    firstDeliveryIsSuspect: true,
    dropsSilentConsumers: true,
    wrapPublishesWhereItConsumes: false,
    // A producer of kafkajs that was disconnected during a send may connect again (brokers.md K21).
    closedClients: { consume: 'refuse', publish: 'connect again' },
    soakTransaction: 'each',
  },
  servers: {
    acceptance: server(),
    crash: server(),
    patient: server({ sessionMs: 6_000 }),
    outage: [server()],
  },
  // To defer a record is to pause its partition: nothing is written.
  words: {
    'ack-on-wire': kafkaRequest(OFFSET_COMMIT),
    'dead-letter-on-wire': kafkaRequest(PRODUCE),
  },
  samples: {
    quickStart: 'kafka-pg',
    guarded: ['kafka-wrap'],
    unguarded: ['kafka-before'],
    ownLines: /kafka|topic|producer/i,
    haveOwnQueues: false,
    start: async () => (await import('./samples.ts')).startSamples(),
  },
  consumer: () => import('./consume.ts'),
  destination: async () => (await import('./destination.ts')).destinationOf,
  nest: async () => (await import('./nest.ts')).nestConsumerOf,
  demo: async () => (await import('./demo.ts')).kafkaDemo,
  benchmark: async () => (await import('../../../bench/scenarios/kafka.ts')).kafkaBenchmark,
  docs: async () => (await import('./docs.ts')).kafkaDocs,
  configurations: async () => (await import('./configurations.ts')).kafkaConfigurations,
  hangs: async () => (await import('./hangs.ts')).startHangBroker,
  bytes: async () => (await import('./bytes.ts')).kafkaBytes,
  failedStarts: async () => (await import('./failed-start.ts')).failedStarts,
  inMemory: () => import('./in-memory.ts'),
  consume: async () => (await import('@onceward/kafka')).consumeKafka,
}
