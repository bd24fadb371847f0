import type { ConfirmChannel } from 'amqplib'
import { toDelivery } from './effects.ts'

export interface PublishOrder {
  readonly queue: string
  readonly events: number
}

/** Confirms are awaited after this many messages, which bounds the memory for unconfirmed ones. */
const BETWEEN_CONFIRMS = 1_000

/** Publishes so many events, persistent; resolves when all are confirmed. */
export async function publish(
  channel: ConfirmChannel,
  { queue, events }: PublishOrder,
): Promise<void> {
  for (let sent = 1; sent <= events; sent++) {
    const { body, headers } = toDelivery()
    channel.sendToQueue(queue, Buffer.from(body), {
      persistent: true,
      contentType: 'application/json',
      headers,
    })
    if (sent % BETWEEN_CONFIRMS === 0) await channel.waitForConfirms()
  }
  await channel.waitForConfirms()
}
