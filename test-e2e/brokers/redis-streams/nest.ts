import { type Places, streamBroker } from '@onceward/nestjs'
import { Redis } from 'ioredis'
import type { NestConsumer } from '../broker.ts'
import type { StreamSource } from './queue.ts'

export async function nestConsumerOf(source: StreamSource): Promise<NestConsumer> {
  const { dead, stream, url } = source
  const client = new Redis(url)
  const place: Places['streams'] = { stream, deadLetter: { stream: dead }, keepEntries: false }
  return { broker: streamBroker(client), place, close: async () => client.disconnect() }
}
