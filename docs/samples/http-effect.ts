import { createGuard, type Guard, type Inbox, RetryableError } from '@onceward/core'
import type { PoolClient } from 'pg'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

export function createPayments(inbox: Inbox<PoolClient>, paymentsUrl: string): Guard {
  return createGuard(
    { consumer: 'payments', inbox, schema: OrderPlaced, eventKey: (e) => e.payload.orderId },
    async ({ payload, idempotencyKey }, { tx, signal }) => {
      const response = await fetch(`${paymentsUrl}/charges`, {
        method: 'POST',
        headers: { 'idempotency-key': idempotencyKey, 'content-type': 'application/json' },
        body: JSON.stringify(payload),
        signal,
      })
      if (!response.ok) throw new RetryableError(`payments answered ${response.status}`)
      await tx.query('insert into charges (order_id, cents) values ($1, $2)', [
        payload.orderId,
        payload.cents,
      ])
    },
  )
}
