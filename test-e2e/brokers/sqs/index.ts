import { sqsAction } from '@onceward/testing/wire'
import type { BrokerDefinition, TestServer } from '../broker.ts'
import type { SqsQueueOptions } from './queue.ts'

const server = (options: SqsQueueOptions = {}): TestServer => ({
  title: 'SQS',
  service: 'sqs',
  start: async () => (await import('./server.ts')).startSqs(options),
})

export const sqs: BrokerDefinition = {
  title: 'SQS',
  service: 'sqs',
  needs: undefined,
  traits: {
    firstDeliveryIsSuspect: false,
    dropsSilentConsumers: false,
    wrapPublishesWhereItConsumes: false,
    // A destroyed client of the AWS SDK opens a new connection.
    closedClients: { consume: 'connect again', publish: 'connect again' },
    // The SDK's default.
    mostSockets: 50,
    soakTransaction: 'batch',
  },
  servers: {
    acceptance: server(),
    crash: server(),
    patient: server({ visibilityMs: 6_000, longestHiddenMs: 2_000 }),
    // The server of the tests keeps its queues in memory.
    outage: [],
  },
  words: {
    'ack-on-wire': sqsAction('DeleteMessage'),
    'defer-on-wire': sqsAction('ChangeMessageVisibility'),
    'dead-letter-on-wire': sqsAction('SendMessage'),
  },
  samples: {
    quickStart: 'sqs-pg',
    guarded: ['first-screen', 'sqs-kysely', 'own-loop', 'sqs-consumer'],
    unguarded: [],
    ownLines: /sqs|queue|deadUrl/i,
    haveOwnQueues: true,
    start: async () => (await import('./samples.ts')).startSamples(),
  },
  consumer: () => import('./consume.ts'),
  destination: async () => (await import('./destination.ts')).destinationOf,
  nest: async () => (await import('./nest.ts')).nestConsumerOf,
  demo: async () => (await import('./demo.ts')).sqsDemo,
  benchmark: async () => (await import('../../../bench/scenarios/sqs.ts')).sqsBenchmark,
  docs: async () => (await import('./docs.ts')).sqsDocs,
  configurations: async () => (await import('./configurations.ts')).sqsConfigurations,
  hangs: async () => (await import('./hangs.ts')).startHangBroker,
  bytes: async () => (await import('./bytes.ts')).sqsBytes,
  failedStarts: async () => (await import('./failed-start.ts')).failedStarts,
  inMemory: () => import('./in-memory.ts'),
  consume: async () => (await import('@onceward/sqs')).consumeSqs,
}
