import { createGuard, type Guard } from '@onceward/core'
import { postgresJsInbox } from '@onceward/postgres/postgres-js'
import postgres from 'postgres'

const sql = postgres(process.env.DATABASE_URL ?? '', { max: 10 })

export const billing: Guard = createGuard(
  { consumer: 'billing', inbox: postgresJsInbox(sql) },
  async ({ key }, { tx }) => {
    await tx`insert into charges (order_id, cents) values (${key}, 100)`
  },
)
