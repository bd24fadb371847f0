import type { Destination } from '@onceward/core'
import { natsDestination } from '@onceward/nats'
import { connectionTo, type NatsSource } from './queue.ts'

export async function destinationOf({ stream, url }: NatsSource): Promise<Destination> {
  const connection = await connectionTo(url)
  const destination = natsDestination(connection, { subject: `${stream}.orders` })
  return { ...destination, close: () => connection.close() }
}
