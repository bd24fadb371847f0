import type { Consumption, Guard } from '@onceward/core'
import { consumeNats } from '@onceward/nats'
import type { DeliveryWatch } from '../broker.ts'
import { connectionTo, type NatsSource } from './queue.ts'
import { watchedClient } from './watched-client.ts'

export async function consume(
  { url, stream, consumer, dead }: NatsSource,
  guard: Guard,
  { onReceive }: DeliveryWatch,
): Promise<Consumption> {
  const client = watchedClient(await connectionTo(url), {
    onMessage: (position, data) =>
      onReceive(String(JSON.parse(Buffer.from(data).toString()).id), position),
  })
  return consumeNats(client, guard, {
    ...{ stream, consumer, deadLetter: { subject: dead } },
    orderingHeader: 'lane',
    drainMs: 5_000,
  })
}
