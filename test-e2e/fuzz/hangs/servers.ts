import {
  type PostgresServer,
  postgres,
  type RedisConnection,
  redis,
  type Server,
} from '@onceward/testing'
import type { AmqpQueue } from '../../brokers/amqp/queue.ts'
import type { RunningBroker } from '../../brokers/broker.ts'
import type { BrokerName } from '../../brokers/index.ts'
import type { Topic } from '../../brokers/kafka/queue.ts'
import type { QueueUnderTest } from '../../brokers/queue-under-test.ts'
import type { SqsQueue } from '../../brokers/sqs/queue.ts'
import type { Address } from './links.ts'
import type { Subject, SubjectParts } from './subject.ts'

/** A broker with the consumers of its adapter. */
export interface HangBroker {
  readonly server: Server<unknown>
  readonly address: Address
  createQueue(): Promise<QueueUnderTest>
  start(parts: SubjectParts): Promise<Subject>
}

/** The visibility timeout, ms: a message whose delete was lost comes back soon. */
const VISIBILITY_MS = 6_000
/** What Kafka's group waits for a silent member, ms. */
const SESSION_MS = 3_000

const addressOf = (url: string): Address => {
  const { hostname: host, port } = new URL(url)
  return { host, port: Number(port) }
}

const START: Readonly<Record<BrokerName, () => Promise<HangBroker>>> = {
  sqs: async () => {
    const { startSqs } = await import('../../brokers/sqs/server.ts')
    const { startSqsSubject } = await import('./sqs.ts')
    const running: RunningBroker<SqsQueue> = await startSqs({ visibilityMs: VISIBILITY_MS })
    const { endpoint } = running.server.connection as { readonly endpoint: string }
    return {
      server: running.server,
      address: addressOf(endpoint),
      createQueue: () => running.createQueue(),
      start: (parts) => startSqsSubject(parts as SubjectParts<SqsQueue>),
    }
  },
  kafka: async () => {
    const { startKafka } = await import('../../brokers/kafka/server.ts')
    const { startKafkaSubject } = await import('./kafka.ts')
    const running: RunningBroker<Topic> = await startKafka({ sessionMs: SESSION_MS })
    const { brokers } = running.server.connection as { readonly brokers: readonly string[] }
    return {
      server: running.server,
      address: addressOf(`kafka://${brokers[0]}`),
      createQueue: () => running.createQueue(),
      start: (parts) => startKafkaSubject(parts as SubjectParts<Topic>),
    }
  },
  amqp: async () => {
    const { startRabbitmq } = await import('../../brokers/amqp/server.ts')
    const { startAmqpSubject } = await import('./amqp.ts')
    const running: RunningBroker<AmqpQueue> = await startRabbitmq()
    const { url } = running.server.connection as { readonly url: string }
    return {
      server: running.server,
      address: addressOf(url),
      createQueue: () => running.createQueue(),
      start: (parts) => startAmqpSubject(parts as SubjectParts<AmqpQueue>),
    }
  },
}

/** Postgres, Redis and the brokers that the plans need; nothing of them is ever hurt. */
export class Servers implements AsyncDisposable {
  readonly postgres: PostgresServer
  readonly redis: Server<RedisConnection>
  readonly #brokers = new Map<BrokerName, Promise<HangBroker>>()

  private constructor(parts: Pick<Servers, 'postgres' | 'redis'>) {
    this.postgres = parts.postgres
    this.redis = parts.redis
  }

  static async start(): Promise<Servers> {
    const [database, cache] = await Promise.all([postgres(), redis()])
    return new Servers({ postgres: database, redis: cache })
  }

  /** Starts the broker at the first call. */
  broker(name: BrokerName): Promise<HangBroker> {
    const starting = this.#brokers.get(name) ?? START[name]()
    this.#brokers.set(name, starting)
    return starting
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const brokers = await Promise.all(this.#brokers.values())
    const all = [this.postgres, this.redis, ...brokers.map(({ server }) => server)]
    await Promise.all(all.map((server) => server.stop()))
  }
}
