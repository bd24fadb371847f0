import { randomUUID } from 'node:crypto'
import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { database, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

let pool: pg.Pool
let listener: pg.Client

beforeAll(async () => {
  const { url } = await database()
  pool = new pg.Pool({ connectionString: url, max: 6 })
  listener = new pg.Client({ connectionString: url })
  await Promise.all([migrate(pool), listener.connect()])
})
afterAll(() => Promise.all([pool.end(), listener.end()]))

type Transaction = 'each' | 'batch'
type Handler = (event: { readonly n: number }, tx: pg.PoolClient) => Promise<void>

/** Runs three events of one call, one after the other, until none is left. */
async function runThree(transaction: Transaction, handler: Handler): Promise<void> {
  const guard = createGuard<pg.PoolClient, unknown, { readonly n: number }>(
    {
      ...{ consumer: randomUUID(), inbox: pgInbox(pool), logger: silent, transaction },
      ...{ orderingKey: () => 'one', retry: { baseMs: 1, maxMs: 1 } },
    },
    async ({ payload }, { tx }) => handler(payload, tx),
  )
  const deliveries = [0, 1, 2].map((n) => toDelivery({ n }))
  await until(async () => {
    const settlements = await guard.processBatch(deliveries)
    return settlements.every(({ kind }) => kind === 'ack')
  })
  await guard.close()
}

/** What docs/guarantees.md says of shared transactions. */
describe('what a handler sees of the events in its transaction', () => {
  it.each([
    ['each', [1, 1, 1]],
    ['batch', [1, 2, 3]],
  ] as const)('rows of a temporary table, with %s: %j', async (transaction, expected) => {
    const seen: number[] = []
    await runThree(transaction, async ({ n }, tx) => {
      await tx.query('create temporary table if not exists scratch (n int) on commit drop')
      await tx.query('insert into scratch values ($1)', [n])
      const { rows } = await tx.query<{ count: number }>('select count(*)::int from scratch')
      seen.push(rows[0]?.count ?? 0)
    })
    expect(seen).toEqual(expected)
  })

  it.each([
    ['each', 3],
    ['batch', 1],
  ] as const)('equal notifications, with %s: %i', async (transaction, expected) => {
    const channel = `changed_${transaction}`
    const heard: unknown[] = []
    const hear = (heardOf: pg.Notification): void => void heard.push(heardOf.payload)
    listener.on('notification', hear)
    await listener.query(`listen ${channel}`)
    await runThree(transaction, async (_, tx) => {
      await tx.query('select pg_notify($1, $2)', [channel, 'orders'])
    })
    await pool.query('select pg_notify($1, $2)', [channel, 'last'])
    await until(() => heard.includes('last'))
    listener.off('notification', hear)
    expect(heard).toEqual([...Array.from({ length: expected }, () => 'orders'), 'last'])
  })

  it.each([
    ['each', 3],
    ['batch', 1],
  ] as const)('the time of now(), with %s: %i', async (transaction, expected) => {
    const times = new Set<string>()
    await runThree(transaction, async (_, tx) => {
      const { rows } = await tx.query<{ now: string }>('select now()::text')
      times.add(rows[0]?.now ?? '')
    })
    expect(times.size).toBe(expected)
  })

  it.each([
    ['each', { 0: 1, 1: 2, 2: 1 }],
    ['batch', { 0: 2, 1: 2, 2: 1 }],
  ] as const)(
    'calls outside when the second event fails once, with %s: %j',
    async (transaction, expected) => {
      const calls: Record<number, number> = {}
      await runThree(transaction, async ({ n }) => {
        calls[n] = (calls[n] ?? 0) + 1
        if (n === 1 && calls[n] === 1) throw new Error('not now')
      })
      expect(calls).toEqual(expected)
    },
  )
})
