import { natsBroker, type Places } from '@onceward/nestjs'
import type { NestConsumer } from '../broker.ts'
import { connectionTo, type NatsSource } from './queue.ts'

export async function nestConsumerOf(source: NatsSource): Promise<NestConsumer> {
  const { consumer, dead, stream, url } = source
  const connection = await connectionTo(url)
  const place: Places['nats'] = { stream, deadLetter: { subject: dead } }
  return {
    broker: natsBroker(connection, { consumer }),
    place,
    close: () => connection.close(),
  }
}
