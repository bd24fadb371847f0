import type { ClientBase } from 'pg'
import { tell } from './signals.ts'

/** The event: an order was placed. Its key travels in the header `idempotency-key`. */
export interface OrderPlaced {
  readonly orderId: number
}

/**
 * The ordinary handler, the same for both runs: reads the order, writes a charge, updates the balance.
 *
 * Neither the handler nor its tables know of duplicates.
 */
export async function chargeOrder(tx: ClientBase, { orderId }: OrderPlaced): Promise<void> {
  const found = await tx.query('select account_id, cents from orders where id = $1', [orderId])
  const [order] = found.rows
  await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, order.cents])
  await writeInvoice()
  await tx.query('update accounts set balance = balance - $2 where id = $1', [
    order.account_id,
    order.cents,
  ])
}

/** Takes a while inside the transaction; one in sixty takes longer than the visibility timeout of the demo on SQS. */
async function writeInvoice(): Promise<void> {
  tell({ kind: 'in-transaction' })
  const workMs = Math.random() < 1 / 60 ? 2_500 : 5 + Math.random() * 20
  await new Promise((resolve) => setTimeout(resolve, workMs))
}
