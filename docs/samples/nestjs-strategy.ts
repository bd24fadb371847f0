import { Controller, type INestApplication } from '@nestjs/common'
import { EventPattern, Payload } from '@nestjs/microservices'
import type { Inbox } from '@onceward/core'
import { kafkaBroker, OncewardStrategy, Tx } from '@onceward/nestjs'
import type { Kafka } from 'kafkajs'
import type { EntityManager } from 'typeorm'

@Controller()
export class Orders {
  @EventPattern<string>('order.placed')
  async placed(@Payload() order: object, @Tx() tx: EntityManager): Promise<void> {
    await tx.getRepository('Charge').insert(order)
  }
}

export function connect(app: INestApplication, kafka: Kafka, inbox: Inbox<EntityManager>): void {
  app.connectMicroservice({
    strategy: new OncewardStrategy({
      broker: kafkaBroker(kafka),
      place: { topics: ['orders'] },
      consumer: 'orders',
      inbox,
    }),
  })
}
