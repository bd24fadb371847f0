import { assertRetryTopology } from '@onceward/amqp'
import { until } from '@onceward/testing'
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib'
import type { AmqpSource, Order } from '../workers/protocol.ts'
import type { Place } from './queue-under-test.ts'

export interface QueueOptions {
  readonly type?: 'classic' | 'quorum' | undefined
  /** Of quorum queues: a message that was returned more often is dropped, or dead-lettered by a policy. */
  readonly deliveryLimit?: number | undefined
  readonly prefetch?: number | undefined
  readonly retryLevelsMs?: readonly number[] | undefined
  readonly holdMs?: number | undefined
  /** The url that workers use, where it is another than the test's. */
  readonly workerUrl?: string | undefined
}

/** A queue with its dead-letter queue. */
export interface Queue extends Place {
  readonly source: AmqpSource
  /** Something else on a channel of the test's own, tried again for as long as the broker is away. */
  use<Result>(work: (channel: ConfirmChannel) => Promise<Result>): Promise<Result>
}

const SEND_SIZE = 200

/** Seconds after which the broker begins to miss a worker that is frozen: the default would make tests wait. */
const HEARTBEAT = 'heartbeat=3'

export async function createQueue(
  url: string,
  queue: string,
  options: QueueOptions = {},
): Promise<Queue> {
  const { type = 'classic', deliveryLimit, prefetch, workerUrl = `${url}?${HEARTBEAT}` } = options
  const { retryLevelsMs = [1_000, 5_000], holdMs } = options
  const link = new Link(url)
  const deadQueue = `${queue}.dead`
  const limited = {
    'x-delivery-limit': deliveryLimit,
    'x-dead-letter-exchange': '',
    'x-dead-letter-routing-key': deadQueue,
  }
  const delays = await link.use(async (channel) => {
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
    use: (work) => link.use(work),
    send: (orders) => send(link, queue, orders),
    depth: () => link.use((channel) => depthOf(channel, [queue, ...delays])),
    deadLetters: () => link.use((channel) => readAll(channel, deadQueue)),
    close: () => link.close(),
  }
}

interface Opened {
  readonly channel: ConfirmChannel
  /** Rejects when it is. */
  readonly closed: Promise<never>
}

/** A connection that is made anew when it broke. */
class Link {
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
          // Confirms that are awaited on a channel that closes never come.
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
    // It is of interest only while something waits for an answer.
    closed.catch(() => undefined)
    return { channel, closed }
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    this.#open = undefined
    // It may be gone already.
    await connection?.close().catch(() => undefined)
  }
}

/** A part that was not confirmed as a whole is sent again: then some of it is there twice. */
async function send(link: Link, queue: string, orders: readonly Order[]): Promise<void> {
  for (let from = 0; from < orders.length; from += SEND_SIZE) {
    await link.use(async (channel) => {
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

type DeadLetters = Awaited<ReturnType<Place['deadLetters']>>

/** What came since the last call. */
async function readAll(channel: ConfirmChannel, queue: string): Promise<DeadLetters> {
  const found: DeadLetters[number][] = []
  while (true) {
    const message = await channel.get(queue, { noAck: true })
    if (message === false) return found
    const reason = message.properties.headers?.['x-onceward-reason']
    found.push({ id: JSON.parse(message.content.toString()).id, reason })
  }
}
