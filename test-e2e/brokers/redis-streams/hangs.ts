import { consumeStream, wrapStream } from '@onceward/redis-streams'
import type { TcpProxy } from '@onceward/testing'
import { Redis } from 'ioredis'
import { addressOf } from '../../fuzz/hangs/address.ts'
import {
  DRAIN_MS,
  type HangBroker,
  loop,
  type Subject,
  type SubjectParts,
  soon,
} from '../../fuzz/hangs/subject.ts'
import type { StreamQueue } from './queue.ts'
import { startStreams } from './server.ts'

/** The entry of a receive whose answer was lost comes back soon. */
const CLAIM_IDLE_MS = 4_000

/** The broker with the consumers of its adapter. */
export async function startHangBroker(): Promise<HangBroker> {
  const running = await startStreams({ claimIdleMs: CLAIM_IDLE_MS })
  const { url } = running.server.connection as { readonly url: string }
  return {
    server: running.server,
    address: addressOf(url),
    createQueue: () => running.createQueue(),
    start: (parts) => startSubject(parts as SubjectParts<StreamQueue>),
  }
}

function clientOf(url: string, link: TcpProxy | undefined): Redis {
  const through = link === undefined ? url : `redis://${link.host}:${link.port}`
  // A connection that is silent is given up.
  const options = { maxRetriesPerRequest: 1, retryStrategy: () => 200, socketTimeout: 3_000 }
  const client = new Redis(through, options)
  client.on('error', () => undefined)
  return client
}

/** Dead letters are the only entries that a consumer adds. On a client of their own they hang alone. */
function publishingBy(letters: Redis, client: Redis): Redis {
  const call = client.callBuffer.bind(client)
  return Object.assign(client, {
    callBuffer: (...args: Parameters<typeof call>) =>
      args[0] === 'XADD' ? letters.callBuffer(...args) : call(...args),
  })
}

async function startSubject(parts: SubjectParts<StreamQueue>): Promise<Subject> {
  const { queue, guard, links, isWrapped } = parts
  const { url, stream, dead, claimIdleMs } = queue.source
  const letters = clientOf(url, links?.publish)
  const client = publishingBy(letters, clientOf(url, links?.broker))
  const options = { stream, deadLetter: { stream: dead }, claimIdleMs, keepEntries: false }
  if (!isWrapped) {
    const consumption = await consumeStream(client, guard, { ...options, drainMs: DRAIN_MS })
    return {
      health: () => consumption.health(),
      drain: () => consumption.drain(),
      close: async () => {
        client.disconnect()
        letters.disconnect()
      },
    }
  }
  const group = guard.consumer
  const reader = clientOf(url, links?.broker)
  await client.xgroup('CREATE', stream, group, '0', 'MKSTREAM').catch(() => undefined)
  const handle = wrapStream(client, guard, { ...options, consumerName: 'own-loop' })
  const receiving = loop(async () => {
    const reply = await reader.xreadgroupBuffer(
      ...(['GROUP', group, 'own-loop', 'COUNT', 4, 'BLOCK', 1_000] as const),
      ...(['STREAMS', stream, '>'] as const),
    )
    void handle(reply as Parameters<typeof handle>[0])
  })
  return {
    health: () => handle.consumption.health(),
    drain: async () => {
      // A read that hangs ends with its socket.
      await soon(receiving.stop(), DRAIN_MS)
      await handle.consumption.drain()
    },
    close: async () => {
      for (const each of [client, letters, reader]) each.disconnect()
    },
  }
}
