import {
  type PostgresServer,
  postgres,
  type RedisConnection,
  redis,
  type Server,
} from '@onceward/testing'
import type { RunningBroker } from '../brokers/broker.ts'
import { BROKERS, type BrokerName } from '../brokers/index.ts'

/** Postgres, Redis and the brokers that rounds kill and restart. */
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
      // Without a file on disk a killed Redis comes back empty.
      redis({ native: true, settings: { appendonly: 'no' } }),
    ])
    return new Servers({ postgres: database, redis: cache })
  }

  /** Starts the broker at the first call. */
  broker(name: BrokerName): Promise<RunningBroker> {
    const running = this.#brokers.get(name) ?? BROKERS[name].servers.patient.start()
    this.#brokers.set(name, running)
    return running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const brokers = await Promise.all(this.#brokers.values())
    const all = [this.postgres, this.redis, ...brokers.map(({ server }) => server)]
    await Promise.all(all.map((server) => server.stop()))
  }
}
