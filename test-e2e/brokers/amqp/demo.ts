import { assertRetryTopology, consumeAmqp } from '@onceward/amqp'
import { openPlace } from '@onceward/testing/prove'
import { rabbitmq } from '@onceward/testing/servers'
import { amqpMethod } from '@onceward/testing/wire'
import { type Channel, type ChannelModel, type ConsumeMessage, connect } from 'amqplib'
import { aborted, type DemoBroker, type DemoQueue, demoQueue } from '../../demo/demo-broker.ts'
import { slowAcks } from '../../demo/network.ts'
import { tell } from '../../demo/signals.ts'

interface Address {
  readonly url: string
  readonly queue: string
}

const PREFETCH = 8

/** Delay queues of the guarded consumer. */
const RETRY_LEVELS_MS = [1_000, 5_000]

const isAck = amqpMethod(60, 80)

export const amqpDemo: DemoBroker = {
  title: 'RabbitMQ',
  start: async () => {
    const server = await rabbitmq()
    return {
      silenceMs: 4_000,
      openQueue: (name) => openQueue({ url: server.connection.url, queue: name }),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    }
  },
  guarded: async ({ address, billing, signal }) => {
    const { url, queue } = addressOf(address)
    slowAcks(isAck)
    const { stopped } = await consumeAmqp(() => overNetwork(url), billing, {
      queue,
      retryLevelsMs: RETRY_LEVELS_MS,
      signal,
    })
    await stopped
  },
  unguarded: async ({ address, charge, signal }) => {
    const { url, queue } = addressOf(address)
    slowAcks(isAck)
    const connection = await overNetwork(url)
    const channel = await connection.createChannel()
    await channel.prefetch(PREFETCH)
    const handle = async (message: ConsumeMessage): Promise<void> => {
      await charge(JSON.parse(message.content.toString()))
      channel.ack(message)
    }
    const inHand = new Set<Promise<void>>()
    const { consumerTag } = await channel.consume(queue, (message) => {
      if (message === null) throw new Error(`RabbitMQ has cancelled the consumer of ${queue}`)
      const work = handle(message).finally(() => inHand.delete(work))
      inHand.add(work)
    })
    await aborted(signal)
    await channel.cancel(consumerTag)
    await Promise.all(inHand)
    await channel.close()
    await connection.close()
  },
}

const addressOf = (address: string): Address => JSON.parse(address)

/** The connection of both workers: an ordinary one that reports deliveries to the parent. */
async function overNetwork(url: string): Promise<ChannelModel> {
  const connection = await connect(url)
  const telling =
    <Opened extends Channel>(open: () => Promise<Opened>) =>
    async () => {
      const channel = await open()
      channel.on('delivery', () => tell({ kind: 'received', messages: 1 }))
      return channel
    }
  connection.createChannel = telling(connection.createChannel.bind(connection))
  connection.createConfirmChannel = telling(connection.createConfirmChannel.bind(connection))
  return connection
}

/** A place does not know the delay queues. */
async function openQueue(address: Address): Promise<DemoQueue> {
  const { url, queue } = address
  const place = await openPlace({ broker: 'amqp', url }, queue)
  const connection = await connect(url)
  const channel = await connection.createChannel()
  const levels = await assertRetryTopology(connection, queue, RETRY_LEVELS_MS)
  return {
    ...demoQueue(place, JSON.stringify(address)),
    waiting: async () => {
      const counts = await Promise.all(levels.map((name) => channel.checkQueue(name)))
      return counts.reduce((sum, each) => sum + each.messageCount, await place.waiting())
    },
    [Symbol.asyncDispose]: async () => {
      await connection.close()
      await place[Symbol.asyncDispose]()
    },
  }
}
