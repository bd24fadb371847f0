import { createBatchGuard, type GuardEvent } from '@onceward/core'
import { eventIdOf } from '@onceward/core/ports'
import { pgInbox } from '@onceward/postgres/pg'
import type { PoolClient } from 'pg'
import { afterAll, beforeEach, expect, test } from 'vitest'
import {
  type Billing,
  charge,
  createGate,
  openBilling,
  orderPlaced,
  quiet,
  redelivered,
} from './billing.ts'

let billing: Billing
const opened: Billing[] = []
const batch = { options: { transaction: 'batch' } } as const

beforeEach(async () => {
  billing = await openBilling()
  opened.push(billing)
})
afterAll(async () => {
  await Promise.all(opened.map((one) => one[Symbol.asyncDispose]()))
})

const orders = (count: number) => Array.from({ length: count }, (_, n) => orderPlaced(`order-${n}`))

// Red when the whole slice waits for, or fails with, the one row that another process holds.
test.each([
  ['fresh', orderPlaced],
  ['redelivered', (key: string) => redelivered(orderPlaced(key))],
])(
  'a row that another process holds defers its own event and not the other nineteen (%s)',
  async (_, toOrder) => {
    const guard = billing.guard(charge, batch)
    await guard.process(orderPlaced('first'))
    const holder = await billing.admin.connect()
    await holder.query('begin')
    await holder.query(
      'insert into onceward.processed_events (event_id, consumer_id, fingerprint) values ($1, 1, 0)',
      [eventIdOf('billing', undefined, 'order-7')],
    )
    const twenty = Array.from({ length: 20 }, (_, n) => toOrder(`order-${n}`))
    const settlements = await guard.processBatch(twenty)
    await holder.query('rollback')
    holder.release()
    expect(settlements[7]).toMatchObject({ kind: 'defer', reason: 'in-progress' })
    expect(settlements.filter(({ kind }) => kind === 'ack')).toHaveLength(19)
    expect(await billing.charges()).toBe(20)
  },
)

// Red when the verdict of a member counts while it shares its transaction.
test('a member that swallows a failed statement fails alone', async () => {
  const guard = billing.guard(async (event, context) => {
    await charge(event, context)
    if (event.key !== 'order-3') return
    await context.tx.query('select 1 / 0').catch(() => undefined)
  }, batch)
  const settlements = await guard.processBatch(orders(10))
  expect(settlements[3]).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(await billing.charges()).toBe(9)
  expect(await billing.charges('order-3')).toBe(0)
})

// Red without the split after the second 40P01: batches that take rows in opposite order never end.
test('batches that deadlock end with one effect for each event and no attempt counted', async () => {
  await billing.admin.query('insert into balances select n, 0 from generate_series(2, 21) as n')
  const gate = createGate()
  const [one, two] = [false, true].map((isReversed) =>
    billing.guard(
      async (event, context) => {
        const n = Number(event.key.split('-')[1])
        if (n === 1) await Promise.race([gate.pass(), context.tx.query('select pg_sleep(0.2)')])
        const row = 2 + (isReversed ? 19 - n : n)
        await context.tx.query('update balances set cents = cents + 1 where id = $1', [row])
        await charge(event, context)
      },
      { ...batch, consumer: isReversed ? 'reversed' : 'billing' },
    ),
  )
  const [first, second] = await Promise.all([
    one?.processBatch(orders(20)),
    two?.processBatch(orders(20)),
  ])
  for (const settlement of [...(first ?? []), ...(second ?? [])]) {
    expect(settlement).toMatchObject({ by: 'processed' })
  }
  expect(await billing.value('select sum(cents)::int from balances')).toBe(40)
  expect(await billing.value('select max(attempt) from charges')).toBe(1)
})

// Red when members of one transaction are acked before, or without, its commit.
test('a handler of whole batches has one transaction, and a poison message is separated from the others', async () => {
  const transactions = new Set<unknown>()
  const guard = createBatchGuard<PoolClient>(
    { consumer: 'whole', inbox: pgInbox(billing.admin), logger: quiet },
    async (events: readonly GuardEvent<unknown>[], { tx }) => {
      const { rows } = await tx.query<{ xid: string }>('select pg_current_xact_id()::text as xid')
      for (const event of events) {
        if (event.key === 'order-5') throw new Error('poison')
        await tx.query('insert into charges values ($1, $2)', [event.key, event.attempt])
      }
      transactions.add(rows[0]?.xid)
    },
  )
  const settlements = await guard.processBatch(orders(16))
  await guard.close()
  expect(settlements[5]).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(settlements.filter(({ kind }) => kind === 'ack')).toHaveLength(15)
  expect(await billing.charges()).toBe(15)
  expect(transactions.size).toBeLessThan(16)
})

// Red when the text is not looked at: the rows of members that did not run would be committed.
test.each(['commit', 'ROLLBACK', '/* hidden */ end', 'select 1; commit; begin', 'abort'])(
  'a handler that runs "%s" gets an error, and no event is lost',
  async (text) => {
    const guard = billing.guard(async (event, context) => {
      await charge(event, context)
      if (event.key === 'order-2') await context.tx.query(text)
    }, batch)
    const settlements = await guard.processBatch(orders(6))
    expect(settlements[2]).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(settlements.filter(({ kind }) => kind === 'ack')).toHaveLength(5)
    expect(await billing.charges()).toBe(5)
  },
)

test('events that exceed the deadline together are split, and never committed in part', async () => {
  const guard = billing.guard(
    async (event, context) => {
      await context.tx.query('select pg_sleep(0.15)')
      await charge(event, context)
    },
    { options: { transaction: 'batch', deadlineMs: 1_000 } },
  )
  const settlements = await guard.processBatch(orders(10))
  for (const settlement of settlements) expect(settlement).toMatchObject({ by: 'processed' })
  expect(await billing.charges()).toBe(10)
})
