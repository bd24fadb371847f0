import { Injectable } from '@nestjs/common'
import type { GuardEvent, Outbox } from '@onceward/core'
import { Consume, Event, Send, Tx } from '@onceward/nestjs'
import { type EntityManager, EntitySchema } from 'typeorm'
import { z } from 'zod'

const Order = z.object({ orderId: z.string(), cents: z.int() })
type Order = z.infer<typeof Order>

export const Charge = new EntitySchema<Order>({
  name: 'Charge',
  tableName: 'charges',
  columns: { orderId: { name: 'order_id', type: 'text', primary: true }, cents: { type: 'int' } },
})

@Injectable()
export class Billing {
  @Consume('sqs', {
    consumer: 'billing',
    queueUrl: process.env.QUEUE_URL ?? '',
    schema: Order,
    eventKey: ({ payload }) => payload.orderId,
  })
  async charge(
    @Event() { payload }: GuardEvent<Order>,
    @Tx() tx: EntityManager,
    @Send() outbox: Outbox,
  ): Promise<void> {
    await tx.getRepository(Charge).insert(payload)
    outbox.send({ to: 'receipts', key: payload.orderId, payload })
  }
}
