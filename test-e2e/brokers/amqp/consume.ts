import { consumeAmqp } from '@onceward/amqp'
import type { Consumption, Guard } from '@onceward/core'
import { type Channel, type ChannelModel, type ConsumeMessage, connect } from 'amqplib'
import type { DeliveryWatch } from '../broker.ts'
import type { AmqpSource } from './queue.ts'

export function consume(
  { url, queue, deadQueue, retryLevelsMs, holdMs, prefetch }: AmqpSource,
  guard: Guard,
  watch: DeliveryWatch,
): Promise<Consumption> {
  return consumeAmqp(() => watched(url, watch), guard, {
    queue,
    deadLetter: { queue: deadQueue },
    retryLevelsMs,
    holdMs,
    prefetch,
    drainMs: 5_000,
  })
}

/** Watches what the client passes to the adapter, because the adapter has no hook for tests. */
async function watched(url: string, { onReceive }: DeliveryWatch): Promise<ChannelModel> {
  const connection = await connect(url)
  const watching =
    <Opened extends Channel>(open: () => Promise<Opened>) =>
    async () => {
      const channel = await open()
      channel.on('delivery', ({ content }: ConsumeMessage) =>
        onReceive(String(JSON.parse(content.toString()).id)),
      )
      return channel
    }
  connection.createChannel = watching(connection.createChannel.bind(connection))
  connection.createConfirmChannel = watching(connection.createConfirmChannel.bind(connection))
  return connection
}
