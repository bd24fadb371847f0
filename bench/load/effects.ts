import { randomUUID } from 'node:crypto'
import type { Delivery } from '@onceward/core'
import type { Pool, PoolClient } from 'pg'

/** The settings of an untuned server. The servers of the tests do not wait for the disk. */
export const DURABLE: Readonly<Record<string, string>> = { fsync: 'on', full_page_writes: 'on' }

/** The event of all benchmarks. Its handler writes one row. */
export interface Order {
  readonly orderId: string
  readonly cents: number
}

export async function createEffects(pool: Pool): Promise<void> {
  await pool.query('create table effects (order_id uuid not null, cents int not null)')
  await pool.query('create table handled (id uuid primary key)')
}

/** The handler, guarded and unguarded. */
export async function write(tx: PoolClient, { orderId, cents }: Order): Promise<void> {
  await tx.query('insert into effects (order_id, cents) values ($1, $2)', [orderId, cents])
}

/** The handler that takes many events at once: all their writes in one statement. */
export async function writeAll(tx: PoolClient, orders: readonly Order[]): Promise<void> {
  await tx.query(
    'insert into effects (order_id, cents) select * from unnest($1::uuid[], $2::int[])',
    [orders.map(({ orderId }) => orderId), orders.map(({ cents }) => cents)],
  )
}

/** `work` in a transaction, as one writes it by hand. */
export async function inTransaction(
  pool: Pool,
  work: (tx: PoolClient) => Promise<void>,
): Promise<void> {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    await work(tx)
    await tx.query('commit')
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
}

/** What a good engineer writes by hand: the key in a table of its own, in the same transaction. No attempts, no deadline. */
export async function onceByHand(pool: Pool, { orderId, cents }: Order): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const { rowCount } = await tx.query(
      'insert into handled (id) values ($1) on conflict do nothing',
      [orderId],
    )
    if (rowCount === 1) await write(tx, { orderId, cents })
  })
}

export function toDelivery(): Delivery {
  const orderId = randomUUID()
  return deliveryOf(Buffer.from(JSON.stringify({ orderId, cents: 1_999 })), orderId)
}

/** The least that a guard needs of a message. */
export function deliveryOf(body: Uint8Array, key: string): Delivery {
  const source = { broker: 'bench', queue: 'orders' }
  return { body, headers: { 'idempotency-key': key }, source }
}

export function decode({ body }: Delivery): Order {
  return JSON.parse(Buffer.from(body).toString())
}
