import type { Consumption, Guard } from '@onceward/core'
import { consumeStream } from '@onceward/redis-streams'
import type { DeliveryWatch } from '../broker.ts'
import type { StreamSource } from './queue.ts'
import { watchedClient } from './watched-client.ts'

export function consume(
  { url, stream, dead, claimIdleMs, holdMs }: StreamSource,
  guard: Guard,
  { onReceive }: DeliveryWatch,
): Promise<Consumption> {
  const client = watchedClient(url, {
    onEntry: (id, fields) => onReceive(String(JSON.parse(fields.get('payload') ?? '{}').id), id),
  })
  return consumeStream(client, guard, {
    ...{ stream, deadLetter: { stream: dead }, claimIdleMs, holdMs },
    orderingField: 'lane',
    // Tests send before they consume.
    keepEntries: false,
    drainMs: 5_000,
  })
}
