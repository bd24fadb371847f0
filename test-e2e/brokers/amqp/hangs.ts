import { consumeAmqp, type WrappedAmqp, wrapAmqp } from '@onceward/amqp'
import type { TcpProxy } from '@onceward/testing'
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib'
import { addressOf } from '../../fuzz/hangs/address.ts'
import {
  DRAIN_MS,
  type HangBroker,
  loop,
  type Subject,
  type SubjectParts,
  soon,
} from '../../fuzz/hangs/subject.ts'
import type { AmqpQueue } from './queue.ts'
import { startRabbitmq } from './server.ts'

const PREFETCH = 20

/** amqplib never settles a call whose connection is cut before the answer. */
const ANSWER_MS = 1_000

/** The broker with the consumers of its adapter. */
export async function startHangBroker(): Promise<HangBroker> {
  const running = await startRabbitmq()
  const { url } = running.server.connection as { readonly url: string }
  return {
    server: running.server,
    address: addressOf(url),
    createQueue: () => running.createQueue(),
    start: (parts) => startSubject(parts as SubjectParts<AmqpQueue>),
  }
}

async function startSubject(parts: SubjectParts<AmqpQueue>): Promise<Subject> {
  return parts.isWrapped ? wrapped(parts) : consumed(parts)
}

function urlOf(queue: AmqpQueue, link: TcpProxy | undefined): string {
  const url = new URL(queue.source.url)
  if (link !== undefined) url.host = `${link.host}:${link.port}`
  // Seconds: silence is detected after two.
  url.searchParams.set('heartbeat', '1')
  return url.href
}

const optionsOf = ({ source }: AmqpQueue) => ({
  queue: source.queue,
  deadLetter: { queue: source.deadQueue },
  retryLevelsMs: source.retryLevelsMs,
})

async function consumed({ queue, guard, links }: SubjectParts<AmqpQueue>): Promise<Subject> {
  let consuming: ChannelModel | undefined
  // The adapter consumes on one connection and publishes on another.
  const open = async (): Promise<ChannelModel> => {
    if (consuming !== undefined) return connect(urlOf(queue, links?.publish))
    const connection = await connect(urlOf(queue, links?.broker))
    consuming = connection
    connection.on('close', () => {
      consuming = undefined
    })
    return connection
  }
  const consumption = await consumeAmqp(open, guard, { ...optionsOf(queue), drainMs: DRAIN_MS })
  const close = async (): Promise<void> => undefined
  return { health: () => consumption.health(), drain: () => consumption.drain(), close }
}

interface Wrap {
  readonly connection: ChannelModel
  readonly channel: ConfirmChannel
  readonly handle: WrappedAmqp
  readonly tag: string
  readonly closed: Promise<void>
}

/** The user opens a connection and a channel again whenever they end. */
async function wrapped({ queue, guard, links }: SubjectParts<AmqpQueue>): Promise<Subject> {
  let now: Wrap | undefined
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
  const open = async (): Promise<Wrap> => {
    const connection = await connect(urlOf(queue, links?.broker), { timeout: 3_000 })
    connection.on('error', () => undefined)
    const closed = new Promise<void>((resolve) => connection.once('close', () => resolve()))
    try {
      const channel = await connection.createConfirmChannel()
      channel.on('error', () => undefined)
      await channel.prefetch(PREFETCH)
      const handle = wrapAmqp(channel, guard, { ...optionsOf(queue), prefetch: PREFETCH })
      const { consumerTag: tag } = await channel.consume(queue.source.queue, handle)
      return { connection, channel, handle, tag, closed }
    } catch (error) {
      await soon(connection.close(), ANSWER_MS)
      throw error
    }
  }
  const living = loop(async () => {
    now = await open()
    await Promise.race([now.closed, stopped])
  })
  return {
    health: () => now?.handle.consumption.health(),
    drain: async () => {
      void living.stop()
      stop()
      const { channel, tag } = now ?? {}
      if (channel !== undefined && tag !== undefined) {
        await soon(channel.cancel(tag), ANSWER_MS)
      }
      await now?.handle.consumption.drain()
    },
    close: async () => {
      await living.stop()
      if (now !== undefined) await soon(now.connection.close(), ANSWER_MS)
    },
  }
}
