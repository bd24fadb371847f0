import { createGuard, type Guard, type LeaseStore, RetryableError } from '@onceward/core'
import { z } from 'zod'

const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })
const Charge = z.object({ chargeId: z.string(), cents: z.int() })

export interface PaymentsOptions {
  readonly leases: LeaseStore
  readonly paymentsUrl: string
  readonly onTakeover: 'retry' | 'dead-letter' | 'ask-payments'
  readonly leaseMs?: number | undefined
}

export function createPayments(options: PaymentsOptions): Guard {
  const { leases, paymentsUrl, onTakeover, leaseMs } = options
  return createGuard(
    {
      consumer: 'payments',
      leases,
      schema: OrderPlaced,
      eventKey: ({ payload }) => payload.orderId,
      leaseMs,
      onTakeover:
        onTakeover !== 'ask-payments'
          ? onTakeover
          : async ({ idempotencyKey }, { signal }) => {
              const found = await fetch(`${paymentsUrl}/charges/${idempotencyKey}`, { signal })
              if (found.status === 404) return { kind: 'retry' }
              if (!found.ok) throw new RetryableError(`payments answered ${found.status}`)
              return { kind: 'done', result: Charge.parse(await found.json()) }
            },
    },
    async ({ payload, idempotencyKey }, { signal }) => {
      const response = await fetch(`${paymentsUrl}/charges`, {
        method: 'POST',
        headers: { 'idempotency-key': idempotencyKey, 'content-type': 'application/json' },
        body: JSON.stringify(payload),
        signal,
      })
      if (!response.ok) throw new RetryableError(`payments answered ${response.status}`)
      return Charge.parse(await response.json())
    },
  )
}
