import { PGlite } from '@electric-sql/pglite'
import { createGuard, type Delivery, type Guard, type GuardEvent } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Kysely, PGliteDialect, sql, Transaction } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { poolOf } from './fixtures/guards.ts'
import { kyselyInbox } from './kysely.ts'
import { migrate } from './operators/migrate.ts'

interface Database {
  charges: { id: string; cents: number }
}
interface Order {
  readonly id: string
  readonly fails?: boolean
}

let pglite: PGlite
let db: Kysely<Database>

beforeAll(async () => {
  pglite = await PGlite.create()
  await migrate(poolOf(pglite))
  await pglite.exec('create table charges (id text, cents int)')
  db = new Kysely<Database>({ dialect: new PGliteDialect({ pglite }) })
})
afterAll(() => db.destroy())

const deliveryOf = (order: Order): Delivery =>
  toDelivery(order, { headers: { 'idempotency-key': order.id } })

function charging(consumer: string, transaction: 'each' | 'batch'): Guard {
  return createGuard(
    {
      consumer,
      inbox: kyselyInbox(db),
      transaction,
      logger: silent,
      retry: { attempts: 2, baseMs: 1, maxMs: 1 },
    },
    async ({ payload }: GuardEvent<Order>, { tx }) => {
      expect(tx).toBeInstanceOf(Transaction)
      await tx.insertInto('charges').values({ id: payload.id, cents: 1 }).execute()
      if (payload.fails === true) await sql`select 1 / 0`.execute(tx)
      return { charged: payload.id }
    },
  )
}

async function charges(prefix: string): Promise<readonly string[]> {
  const query = db
    .selectFrom('charges')
    .select('id')
    .where('id', 'like', `${prefix}%`)
    .orderBy('id')
  return (await query.execute()).map(({ id }) => id)
}

// One connection for everything, and one statement at a time.
describe.each(['each', 'batch'] as const)('a guard on PGlite, transaction %s', (mode) => {
  it('charges each order once, in one process with one connection', async () => {
    const guard = charging(`pglite-${mode}`, mode)
    const orders = ['a', 'b', 'c'].map((name) => deliveryOf({ id: `${mode}-${name}` }))
    const settlements = await guard.processBatch([...orders, ...orders])
    expect(settlements.map((one) => one.kind === 'ack' && one.by)).toEqual([
      ...['processed', 'processed', 'processed'],
      ...['duplicate', 'duplicate', 'duplicate'],
    ])
    expect(await guard.process(orders[0]!)).toMatchObject({
      ...{ kind: 'ack', by: 'duplicate' },
      result: { charged: `${mode}-a` },
    })
    expect(await charges(`${mode}-`)).toEqual([`${mode}-a`, `${mode}-b`, `${mode}-c`])
    await guard.close()
  })

  it('rolls a failure back, counts it, and ends in a dead letter', async () => {
    const guard = charging(`pglite-${mode}-failing`, mode)
    const order = deliveryOf({ id: `failing-${mode}`, fails: true })
    expect(await guard.process(order)).toMatchObject({ kind: 'defer', reason: 'failed' })
    const dead = await until(async () => {
      const settlement = await guard.process(order)
      return settlement.kind === 'dead-letter' && settlement
    })
    expect(dead.reason).toBe('attempts-spent')
    expect(await charges(`failing-${mode}`)).toEqual([])
    await guard.close()
  })
})
