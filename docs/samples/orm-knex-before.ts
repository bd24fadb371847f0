import type { Knex } from 'knex'

/** Twice for an event that is delivered twice. */
export async function charge(knex: Knex, orderId: string): Promise<void> {
  await knex.transaction(async (tx) => {
    await tx('charges').insert({ order_id: orderId, cents: 100 })
  })
}
