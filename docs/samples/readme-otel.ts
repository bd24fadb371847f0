import { createGuard, type Guard, type Inbox } from '@onceward/core'
import { meterObserver, traced } from '@onceward/otel'
import type { PoolClient } from 'pg'

export function createBilling(inbox: Inbox<PoolClient>): Guard {
  return createGuard(
    { consumer: 'billing', inbox, observe: meterObserver() },
    traced(async ({ key }, { tx }) => {
      await tx.query('insert into charges (order_id) values ($1)', [key])
    }),
  )
}
