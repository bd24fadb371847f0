import { randomUUID } from 'node:crypto'
import { database } from '@onceward/testing'
import { freePort, kafka, rabbitmq, redis, type Server, sqs } from '@onceward/testing/servers'

/** What an example reads from its environment to find one kind of server; see `settings.ts` of each example. */
type Needed = 'sqs' | 'kafka' | 'rabbitmq' | 'redis'

const STARTS: Readonly<Record<Needed, () => Promise<Started>>> = {
  sqs: async () => variables(await sqs(), ({ endpoint }) => ({ SQS_ENDPOINT: endpoint })),
  kafka: async () =>
    variables(await kafka(), ({ brokers }) => ({ KAFKA_BROKERS: brokers.join(',') })),
  rabbitmq: async () => variables(await rabbitmq(), ({ url }) => ({ RABBITMQ_URL: url })),
  redis: async () => variables(await redis(), ({ url }) => ({ REDIS_URL: url })),
}

/** Every example, with the servers that it needs besides Postgres. */
export const EXAMPLES: Readonly<Record<string, readonly Needed[]>> = {
  'sqs-express-orders': ['sqs'],
  'kafka-kysely': ['kafka'],
  'nest-typeorm-kafka': ['kafka'],
  'nest-prisma-sqs': ['sqs'],
  'rabbitmq-redis': ['rabbitmq', 'redis'],
  'rabbitmq-drizzle-outbox': ['rabbitmq'],
  'http-hono': [],
  'stripe-webhook': [],
  'lambda-esbuild': [],
  'telemetry-grafana': ['sqs'],
  'test-your-handler': [],
  bun: [],
}

interface Started extends AsyncDisposable {
  readonly env: NodeJS.ProcessEnv
}

function variables<C>(server: Server<C>, of: (connection: C) => NodeJS.ProcessEnv): Started {
  return { env: of(server.connection), [Symbol.asyncDispose]: () => server.stop() }
}

/** Starts what an example needs, in place of its compose file. */
export async function startServers(example: string): Promise<Started> {
  const name = `orders-${randomUUID()}`
  const { url } = await database()
  const started = await startBeside(url, example)
  Object.assign(started.env, {
    ...{ QUEUE: name, TOPIC: name },
    ...{ PORT: `${await freePort()}`, HEALTH_PORT: `${await freePort()}` },
    // The generator of Prisma does not use the engine for migrations, which would be downloaded.
    ...{ PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
  })
  return started
}

/** The servers that an example needs beside its database, with the variables that name all of them. */
export async function startBeside(databaseUrl: string, example: string): Promise<Started> {
  const servers = new AsyncDisposableStack()
  const env: NodeJS.ProcessEnv = { DATABASE_URL: databaseUrl }
  try {
    for (const need of EXAMPLES[example] ?? []) {
      Object.assign(env, servers.use(await STARTS[need]()).env)
    }
  } catch (error) {
    await servers.disposeAsync()
    throw error
  }
  return { env, [Symbol.asyncDispose]: () => servers.disposeAsync() }
}
