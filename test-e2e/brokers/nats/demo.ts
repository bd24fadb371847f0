import { setTimeout as pause } from 'node:timers/promises'
import { jetstream } from '@nats-io/jetstream'
import { consumeNats, type NatsClient } from '@onceward/nats'
import { openPlace } from '@onceward/testing/prove'
import { nats } from '@onceward/testing/servers'
import { type DemoBroker, type DemoQueue, demoQueue } from '../../demo/demo-broker.ts'
import { ACK_LATENCY_MS } from '../../demo/network.ts'
import { tell } from '../../demo/signals.ts'
import { connectionTo } from './queue.ts'
import { watchedClient } from './watched-client.ts'

interface Address {
  readonly url: string
  readonly stream: string
  readonly consumer: string
}

const SLOTS = 8

export const natsDemo: DemoBroker = {
  title: 'NATS',
  start: async () => {
    const server = await nats()
    return {
      openQueue: (name) => openQueue(server.connection.url, name),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    }
  },
  guarded: async ({ address, billing, signal }) => {
    const { url, stream, consumer } = addressOf(address)
    const connection = await connectionTo(url)
    const options = { stream, consumer, signal }
    const { stopped } = await consumeNats(overNetwork(connection), billing, options)
    await stopped
    await connection.close()
  },
  unguarded: async ({ address, charge, signal }) => {
    const { url, stream, consumer } = addressOf(address)
    const connection = await connectionTo(url)
    const pulling = await jetstream(connection).consumers.get(stream, consumer)
    while (!signal.aborted) {
      const messages = await pulling.fetch({ max_messages: SLOTS, expires: 1_000 })
      const handled: Promise<void>[] = []
      for await (const message of messages) {
        tell({ kind: 'received', messages: 1 })
        const handle = async (): Promise<void> => {
          await charge(message.json())
          tell({ kind: 'before-ack' })
          await pause(ACK_LATENCY_MS)
          await message.ackAck()
        }
        handled.push(handle())
      }
      await Promise.all(handled)
    }
    await connection.close()
  },
}

const addressOf = (address: string): Address => JSON.parse(address)

/** The connection of the worker: an ordinary one over a slow network that reports deliveries to the parent. */
function overNetwork(connection: Awaited<ReturnType<typeof connectionTo>>): NatsClient {
  const watched = watchedClient(connection, {
    onMessage: () => tell({ kind: 'received', messages: 1 }),
  })
  const publish: NatsClient['publish'] = (subject, payload, options) => {
    if (payload !== '+ACK') {
      watched.publish(subject, payload, options)
      return
    }
    tell({ kind: 'before-ack' })
    setTimeout(() => watched.publish(subject, payload, options), ACK_LATENCY_MS)
  }
  return { ...watched, publish }
}

async function openQueue(url: string, name: string): Promise<DemoQueue> {
  const place = await openPlace({ broker: 'nats', url }, name)
  const { consumer, stream } = place.where
  return demoQueue(place, JSON.stringify({ url, stream, consumer } satisfies Address))
}
