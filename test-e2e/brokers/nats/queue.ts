import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers, type NatsConnection } from '@nats-io/transport-node'
import type { Order, Source } from '../../support/workers/protocol.ts'
import { freshName, type QueueUnderTest } from '../queue-under-test.ts'

export interface NatsQueueOptions {
  readonly ackWaitMs?: number | undefined
  /** Servers that keep the streams. */
  readonly replicas?: number | undefined
  /** For how long the streams drop a copy. Default: that of the server, 2 minutes. */
  readonly duplicateWindowMs?: number | undefined
}

export interface NatsSource extends Source {
  readonly kind: 'nats'
  /** Of one server, or of all of them with commas between. */
  readonly url: string
  readonly stream: string
  readonly consumer: string
  /** The subject of dead letters. */
  readonly dead: string
}

/** A stream with its consumer, and a stream of dead letters. */
export interface NatsQueue extends QueueUnderTest {
  readonly source: NatsSource
}

export const CONSUMER = 'billing'

/** A connection that comes back as long as it is asked to. */
export const connectionTo = (url: string): Promise<NatsConnection> =>
  connect({ servers: url.split(','), maxReconnectAttempts: -1, reconnectTimeWait: 100 })

export interface NewStream {
  readonly stream: string
  readonly subjects: readonly string[]
  readonly replicas?: number | undefined
  readonly duplicateWindowMs?: number | undefined
}

export async function createStream(
  connection: NatsConnection,
  { stream, subjects, replicas = 1, duplicateWindowMs = 0 }: NewStream,
): Promise<void> {
  const manager = await jetstreamManager(connection)
  await manager.streams.add({
    ...{ name: stream, subjects: [...subjects] },
    ...{ max_age: 86_400e9, num_replicas: replicas },
    // 0: as the server has it.
    duplicate_window: duplicateWindowMs * 1e6,
  })
}

/** A pull consumer as the documents say. */
export async function createConsumer(
  connection: NatsConnection,
  stream: string,
  ackWaitMs: number,
): Promise<void> {
  const manager = await jetstreamManager(connection)
  await manager.consumers.add(stream, {
    ...{ durable_name: CONSUMER, ack_policy: 'explicit', deliver_policy: 'all' },
    ...{ ack_wait: ackWaitMs * 1e6, max_deliver: -1 },
  })
}

/** Messages that are not settled. */
export async function unsettled(connection: NatsConnection, stream: string): Promise<number> {
  const manager = await jetstreamManager(connection, { checkAPI: false })
  const info = await manager.consumers.info(stream, CONSUMER)
  return info.num_pending + info.num_ack_pending
}

export async function createNatsQueue(
  url: string,
  { ackWaitMs = 2_000, ...config }: NatsQueueOptions = {},
): Promise<NatsQueue> {
  const connection = await connectionTo(url)
  const stream = freshName()
  const deadStream = `${stream}-dead`
  const dead = `dead.${stream}`
  await createStream(connection, { stream, subjects: [`${stream}.>`], ...config })
  await createStream(connection, { stream: deadStream, subjects: [dead], ...config })
  await createConsumer(connection, stream, ackWaitMs)
  const client = jetstream(connection)
  let read = 0
  return {
    operator: {
      address: `${url}?stream=${stream}&consumer-name=${CONSUMER}&dead-letter=${dead}`,
      env: {},
    },
    source: { kind: 'nats', url, stream, consumer: CONSUMER, dead },
    send: async (orders) => {
      const sending = orders.map((order) => {
        // What is sent again after a lost answer is dropped by the stream.
        const options = { msgID: randomUUID(), headers: laneOf(order) }
        const body = JSON.stringify(order)
        return again(() => client.publish(`${stream}.orders`, body, options))
      })
      await Promise.all(sending)
    },
    depth: () => again(() => unsettled(connection, stream)),
    deadLetters: async () => {
      const { streams } = await jetstreamManager(connection, { checkAPI: false })
      const { state } = await streams.info(deadStream)
      const found = []
      for (; read < state.last_seq; read += 1) {
        const letter = await streams.getMessage(deadStream, { seq: read + 1 })
        if (letter === null) continue
        const { id } = letter.json<Order>()
        found.push({ id, reason: letter.header.get('x-onceward-reason') || undefined })
      }
      return found
    },
    close: () => connection.close(),
  }
}

/** Until the server is back, or another leads the stream: while nobody does, the client says that nobody has JetStream. */
async function again<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (
        !/timeout|disconnected|no responders|not enabled|temporarily unavailable/i.test(
          String(error),
        )
      )
        throw error
      await pause(100)
    }
  }
}

function laneOf({ lane }: Order) {
  const made = headers()
  if (lane !== undefined) made.set('lane', lane)
  return made
}
