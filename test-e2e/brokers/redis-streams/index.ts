import type { WordMatcher } from '@onceward/testing/wire'
import { SCRIPTS } from '../../../packages/redis-streams/src/clients/scripts.ts'
import type { BrokerDefinition, TestServer } from '../broker.ts'
import type { StreamQueueOptions } from './queue.ts'

const server = (options: StreamQueueOptions = {}): TestServer => ({
  title: 'Redis Streams',
  service: 'redis',
  start: async () => (await import('./server.ts')).startStreams(options),
})

/** A script is called by its hash. */
const script = (name: keyof typeof SCRIPTS): WordMatcher => {
  const { sha } = SCRIPTS[name]
  return (chunk) => chunk.includes(sha)
}

export const redisStreams: BrokerDefinition = {
  title: 'Redis Streams',
  service: 'redis',
  needs: 'redis-server',
  traits: {
    firstDeliveryIsSuspect: false,
    dropsSilentConsumers: false,
    wrapPublishesWhereItConsumes: false,
    // A disconnected client of ioredis refuses; the connections that the adapter makes of it connect again.
    closedClients: { consume: 'refuse', publish: 'refuse' },
    soakTransaction: 'batch',
  },
  servers: {
    acceptance: server(),
    // No entry is held in the process: what is deferred is parked beside the stream.
    crash: server({ holdMs: 0 }),
    patient: server({ claimIdleMs: 6_000 }),
    outage: [server()],
  },
  words: {
    'ack-on-wire': script('ack'),
    'defer-on-wire': script('park'),
    'dead-letter-on-wire': (chunk) => chunk.includes('XADD'),
  },
  samples: {
    quickStart: 'redis-streams-pg',
    guarded: ['redis-streams-wrap'],
    unguarded: ['redis-streams-before'],
    ownLines: /redis|stream|keepEntries/i,
    haveOwnQueues: true,
    start: async () => (await import('./samples.ts')).startSamples(),
  },
  consumer: () => import('./consume.ts'),
  destination: async () => (await import('./destination.ts')).destinationOf,
  nest: async () => (await import('./nest.ts')).nestConsumerOf,
  demo: async () => (await import('./demo.ts')).streamsDemo,
  benchmark: async () =>
    (await import('../../../bench/scenarios/redis-streams.ts')).redisStreamsBenchmark,
  docs: async () => (await import('./docs.ts')).streamsDocs,
  configurations: async () => (await import('./configurations.ts')).streamsConfigurations,
  hangs: async () => (await import('./hangs.ts')).startHangBroker,
  bytes: async () => (await import('./bytes.ts')).streamsBytes,
  failedStarts: async () => (await import('./failed-start.ts')).failedStarts,
  inMemory: () => import('./in-memory.ts'),
  consume: async () => (await import('@onceward/redis-streams')).consumeStream,
}
