import { CreateQueueCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { type Consumption, createGuard, FatalError, type Guard } from '@onceward/core'
import { meterConsumptions, meterObserver, meterOutbox } from '@onceward/otel'
import { type HealthServer, healthServer } from '@onceward/otel/health'
import { migrate } from '@onceward/postgres'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { consumeSqs, type SqsOptions } from '@onceward/sqs'
import {
  type PostgresServer,
  postgres,
  proxy,
  redis,
  type Server,
  type SqsConnection,
  sqs,
  type TcpProxy,
} from '@onceward/testing'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { Redis } from 'ioredis'
import { Pool } from 'pg'

/** Two consumers on real servers, whose metrics a Prometheus can read at `health.port`. */
export interface WatchedRun extends AsyncDisposable {
  readonly health: HealthServer
  readonly pool: Pool
  readonly database: Server<unknown>
  readonly broker: Server<SqsConnection>
  readonly cache: Server<unknown>
  /** Between the consumers and the broker. */
  readonly network: TcpProxy
  /** `fatal` is dead-lettered, `once` fails at its first attempt, `hangs` never ends. */
  send(to: 'orders' | 'slow', orderId: string, copies?: number): Promise<void>
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

export async function watchedRun(): Promise<WatchedRun> {
  await using starting = new AsyncDisposableStack()
  const database: PostgresServer = starting.use(await postgres({ native: true }))
  const broker = starting.use(await sqs({ native: true, process: true }))
  const cache = starting.use(await redis({ native: true }))
  const { hostname, port } = new URL(broker.connection.endpoint)
  const network = starting.use(await proxy({ host: hostname, port: Number(port) }))
  const url = await database.createDatabase()
  const pool = new Pool({ connectionString: url, max: 10 })
  // The server is killed: idle connections end with an error.
  pool.on('error', () => undefined)
  starting.defer(() => pool.end())
  await migrate(pool)
  const leases = new Redis(cache.connection.url, { maxRetriesPerRequest: 0 })
  leases.on('error', () => undefined)
  starting.defer(() => leases.disconnect())
  const exporter = new PrometheusExporter({ preventServerStart: true })
  const meterProvider = new MeterProvider({ readers: [exporter] })
  starting.defer(() => meterProvider.shutdown())
  const producer = new SQSClient(broker.connection)
  const queues = await createQueues(producer)
  const guards = guardsOn(pool, leases, meterObserver({ meterProvider, figuresEveryMs: 1_000 }))
  const client = new SQSClient({
    ...broker.connection,
    endpoint: `http://${network.host}:${network.port}`,
    useQueueUrlAsEndpoint: false,
  })
  const consume = (guard: Guard, options: SqsOptions): Promise<Consumption> =>
    consumeSqs(client, guard, { ...options, longPollMs: 1_000, drainMs: 100 })
  const consumptions = {
    orders: await consume(guards.orders, {
      queueUrl: queues.orders,
      deadLetter: { queueUrl: queues.dead },
    }),
    slow: await consume(guards.slow, { queueUrl: queues.slow }),
  }
  for (const consumption of Object.values(consumptions)) starting.defer(() => consumption.drain())
  starting.defer(meterConsumptions(consumptions, { meterProvider }))
  const mails = { batch: 1, publish: async () => [undefined] }
  const relay = starting.use(await startRelay({ pool, destinations: { mails }, logger: silent }))
  starting.defer(meterOutbox({ outbox: relay }, { meterProvider }))
  const metrics = exporter.getMetricsRequestHandler.bind(exporter)
  const health = starting.use(
    await healthServer({ consumptions, metrics, port: 0, host: '127.0.0.1' }),
  )
  const stack = starting.move()
  return {
    ...{ health, pool, database, broker, cache, network },
    send: (to, orderId, copies = 1) => send(producer, queues[to], { orderId, copies }),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

type Queue = 'orders' | 'slow' | 'dead'

async function createQueues(client: SQSClient): Promise<Readonly<Record<Queue, string>>> {
  const create = async (QueueName: Queue): Promise<string> => {
    const { QueueUrl = '' } = await client.send(new CreateQueueCommand({ QueueName }))
    return QueueUrl
  }
  return { orders: await create('orders'), slow: await create('slow'), dead: await create('dead') }
}

function guardsOn(
  pool: Pool,
  cache: Redis,
  observe: ReturnType<typeof meterObserver>,
): Readonly<Record<'orders' | 'slow', Guard>> {
  const eventKey = ({ payload }: { readonly payload: { readonly orderId: string } }): string =>
    payload.orderId
  const decode = (body: Uint8Array): { readonly orderId: string } =>
    JSON.parse(Buffer.from(body).toString())
  const common = { inbox: pgInbox(pool), observe, decode, eventKey, logger: silent }
  const orders = createGuard(
    { ...common, consumer: 'orders', leases: redisLeases(cache), retry: { baseMs: 100 } },
    ({ attempt, payload: { orderId } }) => {
      if (orderId.startsWith('fatal')) throw new FatalError('no')
      if (orderId.startsWith('once') && attempt === 1) throw new Error('not yet')
    },
  )
  const slow = createGuard(
    { ...common, consumer: 'slow', concurrency: 1, deadlineMs: 600_000 },
    ({ payload: { orderId } }, { signal }) =>
      orderId.startsWith('hangs')
        ? new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason))
          })
        : undefined,
  )
  return { orders, slow }
}

async function send(
  client: SQSClient,
  QueueUrl: string,
  { copies, orderId }: { readonly orderId: string; readonly copies: number },
): Promise<void> {
  const MessageBody = JSON.stringify({ orderId })
  for (let copy = 0; copy < copies; copy += 1)
    await client.send(new SendMessageCommand({ QueueUrl, MessageBody }))
}
