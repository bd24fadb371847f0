import { jetstream } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { consumeNats, wrapNats } from '@onceward/nats'
import type { TcpProxy } from '@onceward/testing'
import { addressOf } from '../../fuzz/hangs/address.ts'
import {
  DRAIN_MS,
  type HangBroker,
  type Subject,
  type SubjectParts,
  soon,
} from '../../fuzz/hangs/subject.ts'
import type { NatsQueue } from './queue.ts'
import { startNats } from './server.ts'

/** The message of a receive whose answer was lost comes back soon. */
const ACK_WAIT_MS = 4_000

/** The broker with the consumers of its adapter. */
export async function startHangBroker(): Promise<HangBroker> {
  const running = await startNats({ ackWaitMs: ACK_WAIT_MS })
  const { url } = running.server.connection as { readonly url: string }
  return {
    server: running.server,
    address: addressOf(url),
    createQueue: () => running.createQueue(),
    start: (parts) => startSubject(parts as SubjectParts<NatsQueue>),
  }
}

/** A connection that is silent is given up. */
const connectionThrough = (url: string, link: TcpProxy | undefined): Promise<NatsConnection> =>
  connect({
    servers: link === undefined ? url : `${link.host}:${link.port}`,
    ...{ maxReconnectAttempts: -1, reconnectTimeWait: 200, waitOnFirstConnect: true },
    ...{ pingInterval: 1_500, maxPingOut: 1, ignoreClusterUpdates: true, timeout: 3_000 },
  })

async function startSubject(parts: SubjectParts<NatsQueue>): Promise<Subject> {
  const { queue, guard, links, isWrapped } = parts
  const { url, stream, consumer, dead } = queue.source
  const connection = await connectionThrough(url, links?.broker)
  const options = { stream, consumer, deadLetter: { subject: dead } }
  const close = async (): Promise<void> => soon(connection.close(), DRAIN_MS)
  if (!isWrapped) {
    const consumption = await consumeNats(connection, guard, { ...options, drainMs: DRAIN_MS })
    return { health: () => consumption.health(), drain: () => consumption.drain(), close }
  }
  const handle = wrapNats(connection, guard, options)
  const pulled = await jetstream(connection).consumers.get(stream, consumer)
  // Of the client's own ways to receive the one that recovers: a fetch whose end was lost never ends.
  const receiving = await pulled.consume({
    max_messages: 4,
    callback: (message) => void handle(message),
  })
  return {
    health: () => handle.consumption.health(),
    drain: async () => {
      receiving.stop()
      await handle.consumption.drain()
    },
    close,
  }
}
