import { randomUUID } from 'node:crypto'
import type { PoolClient } from 'pg'
import { type Order, write } from '../../load/effects.ts'

/** The answer to an order. A second run makes another one, so that a client can tell. */
export interface Receipt {
  readonly chargeId: string
}

/** The handler of all contestants. */
export async function charge(tx: PoolClient, order: Order): Promise<Receipt> {
  await write(tx, order)
  return { chargeId: randomUUID() }
}
