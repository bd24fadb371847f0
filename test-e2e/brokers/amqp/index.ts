import { amqpMethod } from '@onceward/testing/wire'
import type { BrokerDefinition, TestServer } from '../broker.ts'
import type { AmqpQueueOptions } from './queue.ts'

const server = (type: 'classic' | 'quorum', options: AmqpQueueOptions = {}): TestServer => ({
  title: `RabbitMQ, ${type} queue`,
  service: 'rabbitmq',
  start: async () => (await import('./server.ts')).startRabbitmq({ ...options, type }),
})

const basicAck = amqpMethod(60, 80)
const basicPublish = amqpMethod(60, 40)

export const amqp: BrokerDefinition = {
  title: 'RabbitMQ',
  service: 'rabbitmq',
  needs: 'epmd',
  traits: {
    firstDeliveryIsSuspect: false,
    dropsSilentConsumers: false,
    wrapPublishesWhereItConsumes: true,
    closedClients: { consume: 'refuse', publish: 'refuse' },
    soakTransaction: 'batch',
  },
  servers: {
    acceptance: server('classic'),
    // No message is held in the process: what is deferred waits in a delay queue.
    crash: server('classic', { holdMs: 0 }),
    patient: server('classic'),
    // The queue drops a message at its fourth delivery, or dead-letters it.
    outage: [server('quorum', { deliveryLimit: 3 })],
  },
  words: {
    'ack-on-wire': basicAck,
    // A deferred message is published to a delay queue, and then the original is acknowledged.
    'defer-on-wire': basicPublish,
    'release-on-wire': basicAck,
    'dead-letter-on-wire': basicPublish,
  },
  samples: {
    quickStart: 'amqp-pg',
    guarded: ['amqp-wrap'],
    unguarded: ['amqp-before'],
    ownLines: /amqp|rabbitmq|queue/i,
    haveOwnQueues: false,
    start: async () => (await import('./samples.ts')).startSamples(),
  },
  consumer: () => import('./consume.ts'),
  destination: async () => (await import('./destination.ts')).destinationOf,
  nest: async () => (await import('./nest.ts')).nestConsumerOf,
  demo: async () => (await import('./demo.ts')).amqpDemo,
  benchmark: async () => (await import('../../../bench/scenarios/amqp.ts')).amqpBenchmark,
  docs: async () => (await import('./docs.ts')).amqpDocs,
  configurations: async () => (await import('./configurations.ts')).amqpConfigurations,
  hangs: async () => (await import('./hangs.ts')).startHangBroker,
  bytes: async () => (await import('./bytes.ts')).amqpBytes,
  failedStarts: async () => (await import('./failed-start.ts')).failedStarts,
  inMemory: () => import('./in-memory.ts'),
  consume: async () => (await import('@onceward/amqp')).consumeAmqp,
}
