import { MikroORM } from '@mikro-orm/postgresql'
import { createGuard, type Guard } from '@onceward/core'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import { Charge, ChargeSchema } from './orm-mikro-orm-entity.ts'

const clientUrl = process.env.DATABASE_URL ?? ''
const orm = await MikroORM.init({ clientUrl, entities: [ChargeSchema] })

export const billing: Guard = createGuard(
  { consumer: 'billing', inbox: mikroOrmInbox(orm, { connectionString: clientUrl }) },
  async ({ key }, { tx }) => {
    tx.create(Charge, { orderId: key, cents: 100 })
  },
)
