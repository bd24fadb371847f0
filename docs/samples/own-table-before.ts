import type { Pool } from 'pg'

export interface Order {
  readonly orderId: string
  readonly cents: number
}

/** The consumer as it is today: it marks the order in the transaction that charges it. */
export async function charge(pool: Pool, { orderId, cents }: Order): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const mark = 'insert into processed_orders (order_id) values ($1) on conflict do nothing'
    const { rowCount } = await client.query(mark, [orderId])
    if (rowCount === 1) {
      await client.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    }
    await client.query('commit')
    client.release()
  } catch (error) {
    // Ends the connection, and with it the transaction.
    client.release(true)
    throw error
  }
}
