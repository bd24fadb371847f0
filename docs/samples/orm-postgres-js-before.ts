import type { Sql } from 'postgres'

/** Twice for an event that is delivered twice. */
export async function charge(sql: Sql, orderId: string): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`insert into charges (order_id, cents) values (${orderId}, 100)`
  })
}
