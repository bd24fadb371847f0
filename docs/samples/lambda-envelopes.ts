import {
  createGuard,
  type Guard,
  type GuardEvent,
  type Inbox,
  s3TestEvent,
  unwrapSns,
} from '@onceward/core'
import type { PoolClient } from 'pg'

export function createBilling(inbox: Inbox<PoolClient>): Guard {
  return createGuard(
    { consumer: 'billing', inbox, decode: unwrapSns<{ orderId: string }>(), skip: s3TestEvent },
    async ({ payload }: GuardEvent<{ orderId: string }>, { tx }) => {
      await tx.query('insert into charges (order_id, cents) values ($1, 1)', [payload.orderId])
    },
  )
}
