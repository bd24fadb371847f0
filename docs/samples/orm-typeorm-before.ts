import type { DataSource } from 'typeorm'
import { Charge } from './orm-typeorm-entity.ts'

/** Twice for an event that is delivered twice. */
export async function charge(dataSource: DataSource, orderId: string): Promise<void> {
  await dataSource.transaction(async (tx) => {
    await tx.getRepository(Charge).insert({ orderId, cents: 100 })
  })
}
