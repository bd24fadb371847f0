import type { WordMatcher } from '@onceward/testing/wire'
import type { BrokerDefinition, TestServer } from '../broker.ts'
import type { NatsQueueOptions } from './queue.ts'

const server = (options: NatsQueueOptions = {}): TestServer => ({
  title: 'NATS',
  service: 'nats',
  start: async () => (await import('./server.ts')).startNats(options),
})

const says =
  (word: string): WordMatcher =>
  (chunk) =>
    chunk.includes(word)

export const nats: BrokerDefinition = {
  title: 'NATS',
  service: 'nats',
  needs: 'nats-server',
  traits: {
    firstDeliveryIsSuspect: false,
    dropsSilentConsumers: false,
    wrapPublishesWhereItConsumes: true,
    closedClients: { consume: 'refuse', publish: 'refuse' },
    soakTransaction: 'each',
  },
  servers: {
    acceptance: server(),
    // A letter that is published again must be seen, and comes after the `ack_wait` of its message.
    crash: server({ duplicateWindowMs: 100 }),
    patient: server({ ackWaitMs: 6_000 }),
    outage: [server()],
  },
  words: {
    'ack-on-wire': says('+ACK'),
    // Without a delay it is given back.
    'defer-on-wire': says('-NAK {'),
    'dead-letter-on-wire': says('x-onceward-reason'),
  },
  samples: {
    quickStart: 'nats-pg',
    guarded: ['nats-wrap'],
    unguarded: ['nats-before'],
    ownLines: /nats|stream|connection|consumer:|servers|deadLetter/i,
    haveOwnQueues: true,
    start: async () => (await import('./samples.ts')).startSamples(),
  },
  consumer: () => import('./consume.ts'),
  destination: async () => (await import('./destination.ts')).destinationOf,
  nest: async () => (await import('./nest.ts')).nestConsumerOf,
  demo: async () => (await import('./demo.ts')).natsDemo,
  benchmark: async () => (await import('../../../bench/scenarios/nats.ts')).natsBenchmark,
  docs: async () => (await import('./docs.ts')).natsDocs,
  configurations: async () => (await import('./configurations.ts')).natsConfigurations,
  hangs: async () => (await import('./hangs.ts')).startHangBroker,
  bytes: async () => (await import('./bytes.ts')).natsBytes,
  failedStarts: async () => (await import('./failed-start.ts')).failedStarts,
  inMemory: () => import('./in-memory.ts'),
  consume: async () => (await import('@onceward/nats')).consumeNats,
}
