// @module-tag nightly

import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { expect, test } from 'vitest'
import { createBilling } from '../../docs/samples/billing.ts'
import { charge, type Order } from '../../docs/samples/own-table-before.ts'
import { createBilling as createBeside } from '../../docs/samples/own-table-beside.ts'
import { createDice, shuffled } from '../support/dice.ts'
import { openScenario } from '../support/samples.ts'

const orders = (from: number, to: number): readonly Order[] =>
  Array.from({ length: to - from }, (_, n) => ({ orderId: `order-${from + n}`, cents: 1 }))

type Worker = (order: Order) => Promise<unknown>

/** Gives the deliveries to workers that run side by side, each with one delivery at a time. */
async function deliver(deliveries: readonly Order[], workers: readonly Worker[]): Promise<void> {
  const open = deliveries.values()
  const lane = async (worker: Worker): Promise<void> => {
    for (const order of open) await worker(order)
  }
  await Promise.all(workers.map(lane))
}

async function charged(pool: Pool): Promise<{ orders: number; charges: number }> {
  const { rows } = await pool.query(
    'select count(distinct order_id)::int as orders, count(*)::int as charges from charges',
  )
  return rows[0]
}

/** A worker of a guard: it delivers again until the order is settled for good, as a broker does. */
const workerOf =
  (guard: ReturnType<typeof createBilling>): Worker =>
  async (order) => {
    let settlement = await guard.process(toDelivery(order))
    while (settlement.kind === 'defer' || settlement.kind === 'abandon') {
      settlement = await guard.process(toDelivery(order))
    }
    expect(settlement.kind).toBe('ack')
  }

test('docs/from-your-own-table.md: from a table of one’s own to the guard, no order is lost or charged twice', async () => {
  await using scenario = await openScenario({})
  const { pool } = scenario
  const dice = createDice()
  await pool.query('create table processed_orders (order_id text primary key)')
  const old: Worker = (order) => charge(pool, order)
  const mixed = (list: readonly Order[]): readonly Order[] =>
    shuffled([...list, ...list, ...list], dice)

  // Before: the old consumer alone.
  await deliver(mixed(orders(0, 50)), [old, old])
  await migrate(pool)

  // Release 1 rolls out: both at once, and copies of what the old one has charged.
  const beside = createBeside(pgInbox(pool))
  const besideWorker = workerOf(beside)
  const workers = [old, old, besideWorker, besideWorker]
  await deliver(mixed(orders(0, 200)), workers)
  expect(await charged(pool)).toEqual({ orders: 200, charges: 200 })

  // Release 1 alone: what may still come back is remembered by the guard.
  await deliver(mixed(orders(0, 250)), [besideWorker, besideWorker])
  await beside.close()

  // Release 2, and release 3 with copies of everything.
  const billing = createBilling(pgInbox(pool))
  await pool.query('drop table processed_orders')
  await deliver(mixed(orders(0, 300)), [workerOf(billing), workerOf(billing)])
  await billing.close()
  expect(await charged(pool)).toEqual({ orders: 300, charges: 300 })
})

test('docs/from-your-own-table.md: a guard that does not ask the old table charges again what that alone knows', async () => {
  await using scenario = await openScenario({})
  const { pool } = scenario
  await pool.query('create table processed_orders (order_id text primary key)')
  await migrate(pool)
  const [order = { orderId: '', cents: 0 }] = orders(0, 1)
  await charge(pool, order)
  const billing = createBilling(pgInbox(pool))
  await workerOf(billing)(order)
  await billing.close()
  expect(await charged(pool)).toEqual({ orders: 1, charges: 2 })
})
