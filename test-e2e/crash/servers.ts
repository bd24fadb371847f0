import {
  type PostgresServer,
  postgres,
  type RedisConnection,
  redis,
  type Server,
  sqs,
} from '@onceward/testing'
import { KAFKA, RABBITMQ, type RunningBroker } from '../support/brokers/brokers.ts'
import { freshName } from '../support/brokers/queue-under-test.ts'
import { createQueues } from '../support/brokers/queues.ts'
import type { BrokerName } from './matrix.ts'

/** A worker that is only slow, because the machine is, is not to lose what it has in hand. */
const PATIENT_MS = 6_000

const START: { readonly [Name in BrokerName]: () => Promise<RunningBroker> } = {
  sqs: async () => {
    const server = await sqs({ process: true, native: true })
    const options = { visibilityMs: PATIENT_MS, longestHiddenMs: 2_000 }
    return { server, createPlace: () => createQueues(server.connection, freshName(), options) }
  },
  kafka: async () => {
    const running = await KAFKA.start()
    return { ...running, createPlace: () => running.createPlace({ sessionMs: PATIENT_MS }) }
  },
  amqp: RABBITMQ.start,
}

/** Servers of our own, which rounds hurt one after the other. */
export class Servers implements AsyncDisposable {
  readonly postgres: PostgresServer
  readonly redis: Server<RedisConnection>
  readonly #brokers = new Map<BrokerName, Promise<RunningBroker>>()

  private constructor(parts: Pick<Servers, 'postgres' | 'redis'>) {
    this.postgres = parts.postgres
    this.redis = parts.redis
  }

  static async start(): Promise<Servers> {
    const [database, cache] = await Promise.all([
      postgres({ native: true }),
      // Nothing on disk: what is killed comes back empty.
      redis({ native: true, settings: { appendonly: 'no' } }),
    ])
    return new Servers({ postgres: database, redis: cache })
  }

  /** Started when it is asked for. */
  broker(name: BrokerName): Promise<RunningBroker> {
    const running = this.#brokers.get(name) ?? START[name]()
    this.#brokers.set(name, running)
    return running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const brokers = await Promise.all(this.#brokers.values())
    const all = [this.postgres, this.redis, ...brokers.map(({ server }) => server)]
    await Promise.all(all.map((server) => server.stop()))
  }
}
