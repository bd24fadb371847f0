import type { Destination } from '@onceward/core'
import { streamDestination } from '@onceward/redis-streams'
import { Redis } from 'ioredis'
import type { StreamSource } from './queue.ts'

export async function destinationOf({ stream, url }: StreamSource): Promise<Destination> {
  const client = new Redis(url)
  const close = async (): Promise<void> => client.disconnect()
  return { ...streamDestination(client, { stream }), close }
}
