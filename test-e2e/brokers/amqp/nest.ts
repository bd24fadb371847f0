import { amqpBroker, type Places } from '@onceward/nestjs'
import { connect } from 'amqplib'
import type { NestConsumer } from '../broker.ts'
import type { AmqpSource } from './queue.ts'

export async function nestConsumerOf(source: AmqpSource): Promise<NestConsumer> {
  const { deadQueue, queue, url } = source
  const connection = await connect(url)
  const place: Places['amqp'] = { queue, deadLetter: { queue: deadQueue } }
  return { broker: amqpBroker(connection), place, close: () => connection.close() }
}
