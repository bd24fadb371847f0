import { assertRetryTopology, consumeAmqp } from '@onceward/amqp'
import { type RabbitmqConnection, rabbitmq, type Server } from '@onceward/testing'
import { rabbitmqctl } from '@onceward/testing/adapter'
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib'
import { freshName } from '../../fuzz/configurations/postgres-scenario.ts'
import type { Order, Scenario } from '../../fuzz/configurations/scenario.ts'
import type { Servers } from '../../fuzz/configurations/servers.ts'
import { SharedDatabase } from '../../fuzz/configurations/shared-database.ts'
import type { RabbitmqSettings } from './configurations-grid.ts'

/** Stands in the grid for the dead-letter queue of the cell. */
const DEAD = 'DEAD'
const DELAYS_MS = [300]

export async function openRabbitmq(
  servers: Servers,
  settings: RabbitmqSettings,
): Promise<Scenario> {
  const shared = await SharedDatabase.of(servers)
  const server = await servers.of('rabbitmq', startServer)
  const { url } = server.connection
  const queue = freshName()
  const dead = `${queue}.dead`
  const connection = await connect(url)
  connection.on('error', () => undefined)
  const channel = await connection.createConfirmChannel()
  channel.on('error', () => undefined)
  await channel.assertQueue(dead)
  await channel.bindQueue(dead, 'amq.direct', dead)
  await declare(channel, { queue, dead, settings })
  await setPolicy(server, { queue, dead, settings })
  if (settings.hasDelayQueues) await assertRetryTopology(connection, queue, DELAYS_MS)
  const login = `${await urlOf(servers, server, settings)}${settings.connection}`
  return {
    consumer: queue,
    operator: shared.pool,
    schema: 'onceward',
    createGuard: (handle, logger) =>
      shared.createGuard({
        ...{ consumer: queue, transaction: settings.transaction, handle, logger },
      }),
    consume: (guard) =>
      consumeAmqp(() => connect(login), guard, {
        queue,
        deadLetter: deadLetterOf(settings, dead),
        deadLetterPolicy: settings.deadLetterPolicy,
        holdMs: settings.holdMs,
        retryLevelsMs: DELAYS_MS,
        prefetch: settings.prefetch,
        consumerTimeoutMs: settings.consumerTimeoutMs,
        drainMs: 2_000,
      }),
    send: (orders) => sendAll(channel, queue, orders, settings.priorities),
    depth: () => depthOf(channel, queue),
    published: () => readAll(channel, dead),
    close: async () => {
      await removeAll(url, queue, connection)
    },
  }
}

async function startServer(): Promise<Server<RabbitmqConnection>> {
  const server = await rabbitmq({ native: true })
  // How long a delay queue waits before it offers again what a full queue refused: three minutes by default.
  const setting = 'application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 1000).'
  await rabbitmqctl(server)?.('eval', setting)
  return server
}

interface Parts {
  readonly queue: string
  readonly dead: string
  readonly settings: RabbitmqSettings
}

async function declare(channel: ConfirmChannel, { queue, dead, settings }: Parts): Promise<void> {
  const { durable, exclusive, autoDelete } = settings
  const given = Object.entries(settings.arguments).map(([name, value]) => [
    name,
    value === DEAD ? dead : value,
  ])
  const options = { durable, exclusive, autoDelete, arguments: Object.fromEntries(given) }
  await channel.assertQueue(queue, options)
}

async function setPolicy(
  server: Server<unknown>,
  { queue, dead, settings: { policy } }: Parts,
): Promise<void> {
  if (Object.keys(policy).length === 0) return
  const definition = Object.fromEntries(
    Object.entries(policy).map(([name, value]) => [name, value === DEAD ? dead : value]),
  )
  const options = ['--apply-to', 'queues']
  const pattern = `^${queue}$`
  await rabbitmqctl(server)?.('set_policy', ...options, queue, pattern, JSON.stringify(definition))
}

/** The url of a user with these permissions. Cells share it, because each user takes three runs of `rabbitmqctl`. */
async function urlOf(
  servers: Servers,
  server: Server<RabbitmqConnection>,
  { permissions }: RabbitmqSettings,
): Promise<string> {
  const { url } = server.connection
  if (permissions === undefined) return url
  const { configure, write, read } = permissions
  const user = await servers.of(`user ${JSON.stringify(permissions)}`, async () => {
    const name = freshName()
    const ctl = rabbitmqctl(server)
    // RabbitMQ accepts connections before its start has ended, and refuses to create users until then.
    await ctl?.('await_startup')
    await ctl?.('add_user', name, name)
    await ctl?.('set_permissions', name, configure, write, read)
    return { name, [Symbol.asyncDispose]: async (): Promise<void> => undefined }
  })
  return Object.assign(new URL(url), { username: user.name, password: user.name }).href
}

function deadLetterOf(
  { deadLetter }: RabbitmqSettings,
  dead: string,
): 'dlx' | { queue: string } | { exchange: string; routingKey: string } {
  if (deadLetter === 'dlx') return 'dlx'
  if (deadLetter === 'queue') return { queue: dead }
  return { exchange: 'amq.direct', routingKey: dead }
}

/** A full queue refuses messages: a producer sends them again. */
async function sendAll(
  channel: ConfirmChannel,
  queue: string,
  orders: readonly Order[],
  hasPriorities: boolean,
): Promise<void> {
  for (const [index, order] of orders.entries()) {
    const content = Buffer.from(JSON.stringify(order))
    const priority = hasPriorities ? { priority: index % 5 } : {}
    const send = (): Promise<boolean> =>
      new Promise((resolve) => {
        channel.sendToQueue(queue, content, { persistent: true, ...priority }, (error) =>
          resolve(error === null || error === undefined),
        )
      })
    while (!(await send())) await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function depthOf(channel: ConfirmChannel, queue: string): Promise<number> {
  let depth = 0
  for (const name of [queue, ...DELAYS_MS.map((ms) => `${queue}.retry.${ms}`)]) {
    depth += (await channel.checkQueue(name)).messageCount
  }
  return depth
}

async function readAll(channel: ConfirmChannel, queue: string): Promise<readonly string[]> {
  const found: string[] = []
  for (;;) {
    const message = await channel.get(queue, { noAck: true })
    if (message === false) return found
    found.push(String(JSON.parse(message.content.toString()).id))
  }
}

async function removeAll(url: string, queue: string, used: ChannelModel): Promise<void> {
  // The channel of the story may be closed, and an exclusive queue belongs to its connection.
  await used.close().catch(() => undefined)
  const connection = await connect(url)
  for (const name of [queue, `${queue}.dead`, ...DELAYS_MS.map((ms) => `${queue}.retry.${ms}`)]) {
    const channel = await connection.createChannel()
    channel.on('error', () => undefined)
    await channel.deleteQueue(name).catch(() => undefined)
    await channel.close().catch(() => undefined)
  }
  await connection.close()
}
