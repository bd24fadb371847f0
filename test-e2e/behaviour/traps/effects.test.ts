import { FatalError, type OutcomeRecord } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { toDelivery } from '@onceward/core/memory'
import { eventIdOf } from '@onceward/core/ports'
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

beforeEach(async () => {
  billing = await openBilling()
  opened.push(billing)
})
afterAll(async () => {
  await Promise.all(opened.map((one) => one[Symbol.asyncDispose]()))
})

// Red when any 23505 is taken for "seen before".
test('trap T9: a unique violation of the business is a failure, not a duplicate', async () => {
  await billing.admin.query('create unique index on charges (key)')
  await billing.admin.query(`insert into charges values ('order', 0)`)
  const settlement = await billing.guard(charge).process(orderPlaced('order'))
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed', error: { code: '23505' } })
})

// Red when an answered COMMIT is believed without looking at what it answered.
test('trap T10: a swallowed failed statement is never acked', async () => {
  const guard = billing.guard(async (event, context) => {
    await charge(event, context)
    await context.tx.query('select 1 / 0').catch(() => undefined)
  })
  const settlement = await guard.process(orderPlaced('order'))
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(await billing.charges()).toBe(0)
})

// Red when 40001 is charged as an attempt: the event would say attempt 2, or be deferred.
test('trap T11: events with serialization failures run again, and no attempt is counted', async () => {
  const set = { inbox: { isolation: 'repeatable read' as const } }
  const gate = createGate()
  let runs = 0
  const slow = billing.guard(async (event, { tx }) => {
    runs += 1
    await tx.query('select cents from balances')
    if (runs === 1) await gate.pass()
    await tx.query('update balances set cents = cents + 1 where id = 1')
    await tx.query('insert into charges values ($1, $2)', [event.key, event.attempt])
  }, set)
  const running = slow.process(orderPlaced('slow'))
  await gate.reached
  await billing.admin.query('update balances set cents = cents + 1 where id = 1')
  gate.open()
  expect(await running).toMatchObject({ by: 'processed' })
  expect(runs).toBe(2)
  expect(await billing.value('select attempt from charges')).toBe(1)
  expect(await billing.value('select cents from balances')).toBe(2)
})

// Red when the counter is part of the transaction that rolls back.
test('trap T13: an attempt counter survives the rollback', async () => {
  const seen: number[] = []
  const guard = billing.guard(async (event, context) => {
    seen.push(event.attempt)
    await charge(event, context)
    throw new Error('always')
  })
  for (let n = 0; n < 5; n += 1) {
    await guard.process(redelivered(orderPlaced('order')))
    await billing.age()
  }
  expect(seen).toEqual([1, 2, 3])
  expect(await billing.charges()).toBe(0)
})

// Red when each instance keeps its own count.
test('trap T14: many instances share one count of attempts', async () => {
  let runs = 0
  const guards = Array.from({ length: 4 }, () =>
    billing.guard(() => {
      runs += 1
      throw new Error('always')
    }),
  )
  let last: unknown
  for (let n = 0; n < 8; n += 1) {
    last = await guards[n % 4]?.process(orderPlaced('order'))
    await billing.age()
  }
  expect(last).toMatchObject({ kind: 'dead-letter', reason: 'attempts-spent' })
  expect(runs).toBe(3)
})

// Red when conflicts are dropped in silence, or overwrite what was stored.
test('trap T29: the same key with another payload is refused, recorded and changes nothing', async () => {
  const guard = billing.guard(charge)
  await guard.process(toDelivery({ cents: 5 }, { messageId: 'order' }))
  expect(await guard.process(toDelivery({ cents: 500 }, { messageId: 'order' }))).toMatchObject({
    kind: 'dead-letter',
    reason: 'fingerprint-mismatch',
  })
  expect(await billing.value('select count(*) from onceward.refused_messages')).toBe('1')
  expect(await guard.process(toDelivery({ cents: 5 }, { messageId: 'order' }))).toMatchObject({
    by: 'duplicate',
  })
  expect(await billing.charges('order')).toBe(1)
})

// Red with a 32-bit hash as the id: "Aa" and "BB" are equal to String.hashCode, the others to Adler-32.
test('trap T30: keys that collide in weak hashes are different events', async () => {
  const guard = billing.guard(charge)
  const keys = ['Aa', 'BB', 'AaAa', 'BBBB', 'AaBB', 'bac', 'abca'.slice(0, 3)]
  const ids = new Set(keys.map((key) => eventIdOf('billing', undefined, key)))
  expect(ids.size).toBe(keys.length)
  for (const key of keys) {
    expect(await guard.process(orderPlaced(key))).toMatchObject({ by: 'processed' })
  }
  expect(await billing.charges()).toBe(keys.length)
})

// Red when the settlement is answered before COMMIT is: a deferred constraint trigger makes it slow.
test('trap T35: the settlement comes after the commit, never before', async () => {
  await billing.admin.query(`create function slow() returns trigger language plpgsql as
    $$ begin perform pg_sleep(0.3); return null; end $$`)
  await billing.admin.query(`create constraint trigger slow after insert on charges
    deferrable initially deferred for each row execute function slow()`)
  await billing.guard(charge).process(orderPlaced('order'))
  expect(await billing.charges('order')).toBe(1)
})

// Red when only a truthy result marks the event as done.
test.each([undefined, null, '', 0, false, [], 'nul \0 and \ud800'])(
  'trap T40: an empty result (%j) completes the event, and its copy is a duplicate',
  async (result) => {
    let runs = 0
    const guard = billing.guard(() => {
      runs += 1
      return result
    })
    await guard.process(orderPlaced('order'))
    const copy = await guard.process(orderPlaced('order'))
    expect(copy).toEqual({
      kind: 'ack',
      by: 'duplicate',
      ...(result === undefined ? {} : { result }),
    })
    expect(runs).toBe(1)
  },
)

// Red when a dead letter is marked as published before the broker has confirmed it, or published before its row is
// visible to others: whoever reads it then finds nothing to replay.
test('trap T27: a dead letter is published from a visible row, and marked when the broker has confirmed it', async () => {
  const guard = billing.guard(() => {
    throw new FatalError('no such account')
  })
  const port = portOf(guard)
  const row = async (): Promise<unknown> =>
    (
      await billing.admin.query(
        'select state, published from onceward.processed_events join onceward.failed_events using (event_id)',
      )
    ).rows
  const publishedBy = async (confirm: () => Promise<void>): Promise<unknown> => {
    const delivery = redelivered(orderPlaced('order'))
    const [settlement] = await port.run([delivery])
    if (settlement?.kind !== 'dead-letter') throw new Error(settlement?.kind)
    return port.publishDeadLetter(settlement, confirm)
  }
  const unpublished = [{ state: 'x', published: false }]
  const seen: unknown[] = []
  const refuse = async (): Promise<void> => {
    seen.push(await row())
    throw new Error('the broker is away')
  }
  const accept = async (): Promise<void> => void seen.push(await row())
  expect(await publishedBy(refuse)).toMatchObject({ kind: 'retry' })
  expect(await row()).toEqual(unpublished)
  expect(await publishedBy(accept)).toEqual({ kind: 'published' })
  expect(seen).toEqual([unpublished, unpublished])
  expect(await row()).toEqual([{ state: 'x', published: true }])
})

// Red when durations are whole milliseconds, or when duplicates are logged where people look for trouble.
test('trap T36: fast deliveries keep their fractions of a millisecond, and duplicates do not flood the log', async () => {
  const loud: unknown[] = []
  const log = (...line: unknown[]): void => void loud.push(line)
  const records: OutcomeRecord[] = []
  const guard = billing.guard(charge, {
    options: {
      logger: { ...quiet, info: log, warn: log, error: log },
      observe: (record) => void records.push(record),
    },
  })
  for (let n = 0; n <= 100; n += 1) await guard.process(orderPlaced('order'))
  expect(records.map(({ settlement }) => settlement)).toMatchObject([
    { by: 'processed' },
    ...Array.from({ length: 100 }, () => ({ by: 'duplicate' })),
  ])
  expect(loud).toEqual([])
  expect(records.filter(({ totalMs }) => totalMs > 0)).toHaveLength(101)
  expect(records.some(({ totalMs }) => !Number.isInteger(totalMs))).toBe(true)
  expect(records[0]?.handlerMs).toBeGreaterThan(0)
})
