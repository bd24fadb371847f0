import { createGuard, type Guard } from '@onceward/core'
import { typeormInbox } from '@onceward/postgres/typeorm'
import { DataSource } from 'typeorm'
import { Charge } from './orm-typeorm-entity.ts'

const url = process.env.DATABASE_URL ?? ''
const dataSource = await new DataSource({ type: 'postgres', url, entities: [Charge] }).initialize()

export const billing: Guard = createGuard(
  { consumer: 'billing', inbox: typeormInbox(dataSource, { connectionString: url }) },
  async ({ key }, { tx }) => {
    await tx.getRepository(Charge).insert({ orderId: key, cents: 100 })
  },
)
