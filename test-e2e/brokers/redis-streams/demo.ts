import { setTimeout as pause } from 'node:timers/promises'
import { consumeStream } from '@onceward/redis-streams'
import { openPlace } from '@onceward/testing/prove'
import { redis } from '@onceward/testing/servers'
import { Redis } from 'ioredis'
import { SCRIPTS } from '../../../packages/redis-streams/src/clients/scripts.ts'
import { type DemoBroker, type DemoQueue, demoQueue } from '../../demo/demo-broker.ts'
import { ACK_LATENCY_MS } from '../../demo/network.ts'
import { tell } from '../../demo/signals.ts'
import { watchedClient } from './watched-client.ts'

interface Address {
  readonly url: string
  readonly stream: string
}

const GROUP = 'billing'
/** Short, so that entries of a dead process come back soon. */
const CLAIM_IDLE_MS = 2_000
const SLOTS = 8

export const streamsDemo: DemoBroker = {
  title: 'Redis Streams',
  start: async () => {
    const server = await redis()
    return {
      openQueue: (name) => openQueue(server.connection.url, name),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    }
  },
  guarded: async ({ address, billing, signal }) => {
    const { url, stream } = addressOf(address)
    const client = overNetwork(url)
    const options = { stream, group: GROUP, claimIdleMs: CLAIM_IDLE_MS, signal }
    const { stopped } = await consumeStream(client, billing, options)
    await stopped
    client.disconnect()
  },
  unguarded: async ({ address, charge, signal }) => {
    const { url, stream } = addressOf(address)
    const client = overNetwork(url)
    const me = `worker-${process.pid}`
    const call = (...args: [string, ...(string | number)[]]) => client.callBuffer(...args)
    const handle = async ([id, flat]: Entry): Promise<void> => {
      await charge(
        JSON.parse(String(flat[flat.findIndex((each) => String(each) === 'payload') + 1])),
      )
      await call('XACK', stream, GROUP, String(id))
      await call('XDEL', stream, String(id))
    }
    while (!signal.aborted) {
      const claimed = await call(
        ...(['XAUTOCLAIM', stream, GROUP, me, CLAIM_IDLE_MS, '0-0', 'COUNT', SLOTS] as const),
      )
      const read = await call(
        ...(['XREADGROUP', 'GROUP', GROUP, me, 'COUNT', SLOTS, 'BLOCK', 500] as const),
        ...['STREAMS', stream, '>'],
      )
      // RESP 3 has no list for each stream.
      const [, fresh = []] = (read ?? []) as [stream: Buffer, entries: Entry[]]
      const [, old = []] = claimed as [cursor: string, entries: Entry[]]
      await Promise.all([...old, ...fresh].map(handle))
    }
    client.disconnect()
  },
}

type Entry = readonly [id: Buffer, fields: readonly Buffer[]]

const addressOf = (address: string): Address => JSON.parse(address)

/** The client of both workers: an ordinary one over a slow network that reports deliveries to the parent. */
function overNetwork(url: string): Redis {
  return watchedClient(url, {
    onCall: (command, script) => {
      if (command !== 'XACK' && script !== SCRIPTS.ack.sha) return undefined
      tell({ kind: 'before-ack' })
      return pause(ACK_LATENCY_MS)
    },
    onEntry: () => tell({ kind: 'received', messages: 1 }),
  })
}

async function openQueue(url: string, stream: string): Promise<DemoQueue> {
  const place = await openPlace({ broker: 'redis-streams', url }, stream)
  // The hand-written consumer does not create its group.
  const client = new Redis(url)
  await client.xgroup('CREATE', stream, GROUP, '0', 'MKSTREAM')
  client.disconnect()
  return demoQueue(place, JSON.stringify({ url, stream } satisfies Address))
}
