import { createGuard, type Guard } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
await migrate(pool) // once per deployment

export const audit: Guard = createGuard(
  { consumer: 'audit', inbox: pgInbox(pool) },
  async ({ key }, { tx }) => {
    await tx.query('insert into audit_log (key) values ($1)', [key])
  },
)
