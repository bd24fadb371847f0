import { join } from 'node:path'
import { database } from '@onceward/testing'
import {
  type BrokerAddress,
  type GivenServers,
  type ProveBroker,
  type ProveOptions,
  type ProveResult,
  prove,
} from '@onceward/testing/prove'
import { kafka, nats, rabbitmq, redis, type Server, sqs } from '@onceward/testing/servers'
import { prepareDatabase } from '../../packages/onceward/src/data/proof-database.ts'

/** The servers that the proofs of a file share. Each proof has a database and a place of its own. */
export class SharedServers implements AsyncDisposable {
  readonly #broker: ProveBroker
  readonly #servers: Server<unknown>[] = []
  #address: Promise<BrokerAddress> | undefined
  #redisUrl: Promise<string> | undefined

  constructor(broker: ProveBroker) {
    this.#broker = broker
  }

  async given(): Promise<GivenServers> {
    this.#redisUrl ??= this.#use(redis({ native: true })).then(({ connection }) => connection.url)
    this.#address ??= this.#start()
    const [{ url }, redisUrl, broker] = await Promise.all([
      database(),
      this.#redisUrl,
      this.#address,
    ])
    return { databaseUrl: url, redisUrl, broker }
  }

  async #use<Started extends Server<unknown>>(starting: Promise<Started>): Promise<Started> {
    const server = await starting
    this.#servers.push(server)
    return server
  }

  async #start(): Promise<BrokerAddress> {
    switch (this.#broker) {
      case 'sqs':
        return { broker: 'sqs', config: (await this.#use(sqs({ native: true }))).connection }
      case 'kafka':
        return { broker: 'kafka', config: (await this.#use(kafka())).connection }
      case 'amqp':
        return { broker: 'amqp', url: (await this.#use(rabbitmq())).connection.url }
      case 'redis-streams':
        return { broker: 'redis-streams', url: (await this.#redisUrl) ?? '' }
      case 'nats':
        return { broker: 'nats', url: (await this.#use(nats())).connection.url }
      default:
        return this.#broker satisfies never
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop()))
  }
}

export const consumerFile = (name: string): string =>
  join(import.meta.dirname, 'consumers', `${name}.ts`)

/** A proof as `npx onceward prove` runs it, on servers that are there. */
export async function proveOn(
  servers: GivenServers,
  options: Pick<ProveOptions, 'file'> & Partial<ProveOptions>,
): Promise<ProveResult> {
  return prove({
    ...{ events: 20, kills: 0, seed: 1, workers: 1, patienceMs: 6_000, freezeMs: 20_000 },
    ...{ servers, broker: servers.broker.broker },
    prepare: (url) => prepareDatabase({ url, schema: 'onceward', allowUsed: false }),
    ...options,
  })
}
