import { amqpDestination } from '@onceward/amqp'
import type { Destination } from '@onceward/core'
import { connect } from 'amqplib'
import type { AmqpSource } from './queue.ts'

export async function destinationOf({ queue, url }: AmqpSource): Promise<Destination> {
  return amqpDestination(() => connect(url), { exchange: '', routingKey: queue })
}
