import { kafka } from '../servers/kafka/kafka.ts'
import { nats } from '../servers/nats/nats.ts'
import { postgres } from '../servers/postgres/postgres.ts'
import { rabbitmq } from '../servers/rabbitmq/rabbitmq.ts'
import { redis } from '../servers/redis/redis.ts'
import { ServerMissingError } from '../servers/run/server.ts'
import { sqs } from '../servers/sqs/sqs.ts'
import { ProofError } from './errors.ts'
import type { BrokerAddress } from './places/index.ts'
import type { ProveBroker } from './proof.ts'

/** The servers of a proof. */
export interface ProofServers extends AsyncDisposable {
  readonly databaseUrl: string
  readonly redisUrl: string | undefined
  readonly broker: BrokerAddress
}

/** Servers that the user runs: they are used, and left as they are. */
export interface GivenServers {
  readonly databaseUrl: string
  readonly redisUrl?: string | undefined
  readonly broker: BrokerAddress
}

/**
 * New servers for one proof: PostgreSQL, SQS and Redis as native processes; Kafka, RabbitMQ and NATS from the variables of
 * `@onceward/testing`, in Docker, or as native processes.
 *
 * @throws {@link ProofError} that says what to install.
 */
export async function startServers(broker: ProveBroker): Promise<ProofServers> {
  const started: AsyncDisposable[] = []
  const use = <Server extends AsyncDisposable>(server: Server): Server => {
    started.push(server)
    return server
  }
  const stop = async (): Promise<void> => {
    await Promise.allSettled(started.toReversed().map((server) => server[Symbol.asyncDispose]()))
  }
  try {
    const database = use(await postgres({ native: true }))
    const cache = broker === 'redis-streams' ? await redis({ native: true }) : await optionalRedis()
    if (cache !== undefined) use(cache)
    const redisUrl = cache?.connection.url
    const address = await startBroker(broker, redisUrl ?? '', use)
    const databaseUrl = await database.createDatabase()
    return { databaseUrl, redisUrl, broker: address, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    if (!(error instanceof ServerMissingError)) throw error
    throw new ProofError(`${error.message} Or give your own servers with --servers env.`, {
      cause: error,
    })
  }
}

/** Leases and effects in Redis are optional. */
async function optionalRedis(): Promise<Awaited<ReturnType<typeof redis>> | undefined> {
  return redis({ native: true }).catch((error: unknown) => {
    if (error instanceof ServerMissingError) return undefined
    throw error
  })
}

async function startBroker(
  broker: ProveBroker,
  redisUrl: string,
  use: <Server extends AsyncDisposable>(server: Server) => Server,
): Promise<BrokerAddress> {
  switch (broker) {
    case 'sqs':
      return { broker, config: use(await sqs({ native: true })).connection }
    case 'kafka':
      return { broker, config: use(await kafka()).connection }
    case 'amqp':
      return { broker, url: use(await rabbitmq()).connection.url }
    case 'redis-streams':
      return { broker, url: redisUrl }
    case 'nats':
      return { broker, url: use(await nats()).connection.url }
    default:
      return broker satisfies never
  }
}
