import type { MikroORM } from '@mikro-orm/postgresql'
import { Charge } from './orm-mikro-orm-entity.ts'

/** Twice for an event that is delivered twice. */
export async function charge(orm: MikroORM, orderId: string): Promise<void> {
  await orm.em.fork().transactional(async (tx) => {
    tx.create(Charge, { orderId, cents: 100 })
  })
}
