import { Inject, Injectable } from '@nestjs/common'
import type { GuardEvent, Outbox } from '@onceward/core'
import { Consume, Event, Send } from '@onceward/nestjs'
import { z } from 'zod'
import { Charges } from './charges.ts'
import { topic } from './settings.ts'

const Order = z.object({ orderId: z.string(), accountId: z.int(), cents: z.int() })

@Injectable()
export class Billing {
  @Inject(Charges)
  private readonly charges!: Charges

  @Consume('kafka', {
    consumer: 'billing',
    topics: [topic],
    schema: Order,
    // Two records with the same order are the same event: a copy has another offset, but not another order.
    eventKey: ({ payload }) => payload.orderId,
  })
  async charge(
    @Event() { payload }: GuardEvent<z.infer<typeof Order>>,
    @Send() outbox: Outbox,
  ): Promise<void> {
    const { orderId, accountId, cents } = payload
    await this.charges.add(accountId, { orderId, cents })
    outbox.send({ to: 'receipts', key: orderId, payload: { orderId, cents } })
  }
}
