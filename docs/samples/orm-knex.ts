import { createGuard, type Guard } from '@onceward/core'
import { knexInbox } from '@onceward/postgres/knex'
import createKnex from 'knex'

const connectionString = process.env.DATABASE_URL ?? ''
const knex = createKnex({ client: 'pg', connection: connectionString, pool: { min: 0, max: 10 } })

export const billing: Guard = createGuard(
  { consumer: 'billing', inbox: knexInbox(knex, { connectionString }) },
  async ({ key }, { tx }) => {
    await tx('charges').insert({ order_id: key, cents: 100 })
  },
)
