import {
  type PostgresServer,
  postgres,
  type RedisConnection,
  redis,
  type Server,
} from '@onceward/testing'
import { BROKERS, type BrokerName } from '../../brokers/index.ts'
import type { HangBroker } from './subject.ts'

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
    const start = async (): Promise<HangBroker> => (await BROKERS[name].hangs())()
    const starting = this.#brokers.get(name) ?? start()
    this.#brokers.set(name, starting)
    return starting
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const brokers = await Promise.all(this.#brokers.values())
    const all = [this.postgres, this.redis, ...brokers.map(({ server }) => server)]
    await Promise.all(all.map((server) => server.stop()))
  }
}
