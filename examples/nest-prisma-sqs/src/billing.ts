import { Inject, Injectable } from '@nestjs/common'
import type { GuardEvent, Outbox } from '@onceward/core'
import { Consume, Event, Send } from '@onceward/nestjs'
import { z } from 'zod'
import { Charges } from './charges.ts'
import { queueUrl } from './settings.ts'

const Order = z.object({ orderId: z.string(), accountId: z.int(), cents: z.int() })

@Injectable()
export class Billing {
  @Inject(Charges)
  private readonly charges!: Charges

  @Consume('sqs', {
    consumer: 'billing',
    queueUrl: await queueUrl(),
    // SQS gives the messages of a killed worker to the next one after this time. The default is 30 s.
    leaseMs: 10_000,
    schema: Order,
    // Two messages with the same order are the same event: a copy has another message id, but not another order.
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
