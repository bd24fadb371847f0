import { assertRetryTopology } from '@onceward/amqp'
import { until } from '@onceward/testing'
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib'
import type { Order, Source } from '../../support/workers/protocol.ts'
import type { QueueUnderTest } from '../queue-under-test.ts'

export interface AmqpQueueOptions {
  readonly type?: 'classic' | 'quorum' | undefined
  /** Quorum queues only: a message that is returned more often is dropped, or dead-lettered by a policy. */
  readonly deliveryLimit?: number | undefined
  readonly prefetch?: number | undefined
  readonly retryLevelsMs?: readonly number[] | undefined
  readonly holdMs?: number | undefined
  /** The url that workers use, if it differs from the test's. */
  readonly workerUrl?: string | undefined
}

export interface AmqpSource extends Source {
  readonly kind: 'amqp'
  readonly url: string
  readonly queue: string
  readonly deadQueue: string
  readonly retryLevelsMs: readonly number[]
  readonly holdMs?: number | undefined
  readonly prefetch?: number | undefined
}

/** A queue with its dead-letter queue. */
export interface AmqpQueue extends QueueUnderTest {
  readonly source: AmqpSource
  /** Runs `work` on a channel of the test, and again for as long as the broker is down. */
  use<Result>(work: (channel: ConfirmChannel) => Promise<Result>): Promise<Result>
}

const SEND_SIZE = 200

/** Seconds after which the broker misses a frozen worker. With the default a test would wait for minutes. */
const HEARTBEAT = 'heartbeat=3'

export async function createAmqpQueue(
  url: string,
  queue: string,
  options: AmqpQueueOptions = {},
): Promise<AmqpQueue> {
  const { type = 'classic', deliveryLimit, prefetch, workerUrl = `${url}?${HEARTBEAT}` } = options
  const { retryLevelsMs = [1_000, 5_000], holdMs } = options
  const connection = new TestConnection(url)
  const deadQueue = `${queue}.dead`
  const limited = {
    'x-delivery-limit': deliveryLimit,
    'x-dead-letter-exchange': '',
    'x-dead-letter-routing-key': deadQueue,
  }
  const delays = await connection.use(async (channel) => {
    const limit = deliveryLimit === undefined ? {} : limited
    await channel.assertQueue(queue, { arguments: { 'x-queue-type': type, ...limit } })
    return assertRetryTopology(channel, queue, retryLevelsMs)
  })
  const source = {
    kind: 'amqp',
    url: workerUrl,
    queue,
    deadQueue,
    retryLevelsMs,
    holdMs,
    prefetch,
  } as const
  return {
    source,
    operator: { address: url, env: {} },
    use: (work) => connection.use(work),
    send: (orders) => send(connection, queue, orders),
    depth: () => connection.use((channel) => depthOf(channel, [queue, ...delays])),
    deadLetters: () => connection.use((channel) => readAll(channel, deadQueue)),
    close: () => connection.close(),
  }
}

interface Opened {
  readonly channel: ConfirmChannel
  /** Rejects when the channel closes. */
  readonly closed: Promise<never>
}

/** A connection that is opened again after it broke. */
class TestConnection {
  readonly #url: string
  #connection: ChannelModel | undefined
  #open: Promise<Opened> | undefined

  constructor(url: string) {
    this.#url = url
  }

  async use<Result>(work: (channel: ConfirmChannel) => Promise<Result>): Promise<Result> {
    const result = await until(
      async () => {
        try {
          this.#open ??= this.#openAnew()
          const { channel, closed } = await this.#open
          // amqplib never settles confirms of a channel that closes.
          return { value: await Promise.race([work(channel), closed]) }
        } catch (error) {
          await this.close()
          throw error
        }
      },
      { what: 'RabbitMQ to do what the test asks', deadlineMs: 90_000, everyMs: 100 },
    )
    return result.value
  }

  async #openAnew(): Promise<Opened> {
    const connection = await connect(this.#url)
    connection.on('error', () => undefined)
    this.#connection = connection
    const channel = await connection.createConfirmChannel()
    let last: unknown = new Error('the channel was closed')
    channel.on('error', (error) => {
      last = error
    })
    const closed = new Promise<never>((_, reject) => channel.once('close', () => reject(last)))
    // The rejection matters only while `use` waits for an answer.
    closed.catch(() => undefined)
    return { channel, closed }
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    this.#open = undefined
    // The connection may be closed already.
    await connection?.close().catch(() => undefined)
  }
}

/** Sends in chunks. A chunk that was not confirmed as a whole is sent again, so that some orders come twice. */
async function send(
  connection: TestConnection,
  queue: string,
  orders: readonly Order[],
): Promise<void> {
  for (let from = 0; from < orders.length; from += SEND_SIZE) {
    await connection.use(async (channel) => {
      for (const order of orders.slice(from, from + SEND_SIZE)) {
        const content = Buffer.from(JSON.stringify(order))
        channel.sendToQueue(queue, content, { persistent: true, contentType: 'application/json' })
      }
      await channel.waitForConfirms()
    })
  }
}

async function depthOf(channel: ConfirmChannel, queues: readonly string[]): Promise<number> {
  let depth = 0
  for (const queue of queues) depth += (await channel.checkQueue(queue)).messageCount
  return depth
}

type DeadLetters = Awaited<ReturnType<QueueUnderTest['deadLetters']>>

/** The dead letters that came since the last call. */
async function readAll(channel: ConfirmChannel, queue: string): Promise<DeadLetters> {
  const found: DeadLetters[number][] = []
  while (true) {
    const message = await channel.get(queue, { noAck: true })
    if (message === false) return found
    const reason = message.properties.headers?.['x-onceward-reason']
    found.push({ id: JSON.parse(message.content.toString()).id, reason })
  }
}
