import { setTimeout as sleep } from 'node:timers/promises'
import { eventIdOf } from '@onceward/core/ports'
import { afterAll, beforeEach, expect, test } from 'vitest'
import {
  type Billing,
  charge,
  createGate,
  openBilling,
  orderPlaced,
  redelivered,
  skewed,
} from './billing.ts'

const DAY_MS = 86_400_000
let billing: Billing
const opened: Billing[] = []

beforeEach(async () => {
  billing = await openBilling()
  opened.push(billing)
})
afterAll(async () => {
  await Promise.all(opened.map((one) => one[Symbol.asyncDispose]()))
})

/** Another process's transaction holds the row of `key`, uncommitted, until it is disposed of. */
async function holdRow(key: string): Promise<AsyncDisposable> {
  const client = await billing.admin.connect()
  await client.query('begin')
  await client.query(
    `insert into onceward.processed_events (event_id, consumer_id, fingerprint) values ($1, 1, 0)`,
    [eventIdOf('billing', undefined, key)],
  )
  return {
    [Symbol.asyncDispose]: async () => {
      await client.query('rollback')
      client.release()
    },
  }
}

/** Fails long before the test's own timeout, so that the row is released and the waiting guards can close. */
const soon = <Value>(answer: Promise<Value>): Promise<Value> =>
  Promise.race([
    answer,
    sleep(20_000, undefined, { ref: false }).then(() => {
      throw new Error('A claim still waits for the row after 20 s.')
    }),
  ])

/** What a process leaves that has counted its run a moment ago and has not begun its transaction: no lock shows it. */
async function countSecondRun(): Promise<void> {
  await billing.admin.query(`with counted as (
      update onceward.failed_events set attempt = 2, token = gen_random_uuid(), counted_at = clock_timestamp()
    )
    update onceward.processed_events set state = 'r'`)
}

// Red when a claim that times out on the row's lock is answered as a duplicate.
test('trap T1: a timeout on the dedup insert is not a duplicate', async () => {
  const guard = billing.guard(charge)
  await guard.process(orderPlaced('first'))
  {
    await using _ = await holdRow('order')
    expect(await soon(guard.process(orderPlaced('order')))).toMatchObject({
      kind: 'defer',
      reason: 'in-progress',
    })
  }
  expect(await guard.process(orderPlaced('order'))).toMatchObject({ by: 'processed' })
  expect(await billing.charges('order')).toBe(1)
})

// Red when the state is part of the row's key: each state then has a row of its own.
test('trap T2: redeliveries of a done event find it done, whatever the state was before', async () => {
  let fails = true
  const guard = billing.guard(async (event, context) => {
    if (fails) throw new Error('not yet')
    await charge(event, context)
  })
  const delivery = orderPlaced('order')
  await guard.process(delivery)
  fails = false
  await billing.age()
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  for (const copy of [delivery, redelivered(delivery), delivery]) {
    expect(await guard.process(copy)).toMatchObject({ by: 'duplicate' })
  }
  expect(await billing.charges('order')).toBe(1)
  expect(await billing.value('select count(*) from onceward.processed_events')).toBe('1')
})

// Red when the mark is committed before the handler's transaction.
test('trap T4: a connection that dies between mark and effect leaves nothing behind', async () => {
  let dies = true
  const guard = billing.guard(async (event, context) => {
    await charge(event, context)
    if (!dies) return
    dies = false
    await context.tx.query('select pg_terminate_backend(pg_backend_pid())')
  })
  const delivery = orderPlaced('order')
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'store-down' })
  expect(await billing.charges()).toBe(0)
  await expect
    .poll(() => guard.process(redelivered(delivery)), { timeout: 20_000 })
    .toMatchObject({ by: 'processed' })
  expect(await billing.charges('order')).toBe(1)
})

// Red when staleness is measured from the first attempt rather than from the last count.
test('trap T6: staleness counts from the last attempt, and a done event is never claimed again', async () => {
  const guard = billing.guard(charge)
  const delivery = orderPlaced('order')
  await billing.guard(() => Promise.reject(new Error('first'))).process(delivery)
  await billing.admin.query(
    `update onceward.failed_events set first_failed_at = now() - interval '1 day'`,
  )
  await countSecondRun()
  expect(await guard.process(redelivered(delivery))).toMatchObject({ cause: 'running-elsewhere' })
  expect(await billing.charges('order')).toBe(0)
  await billing.age()
  expect(await guard.process(redelivered(delivery))).toMatchObject({ by: 'processed' })
  await billing.admin.query(
    `update onceward.processed_events set processed_at = now() - interval '1 day'`,
  )
  expect(await guard.process(redelivered(delivery))).toMatchObject({ by: 'duplicate' })
  expect(await billing.charges('order')).toBe(1)
})

// Red when the row is written after the handler instead of before it.
test('trap T7: of two concurrent copies one has an effect', async () => {
  const [one, two] = [billing.guard(charge), billing.guard(charge)]
  for (let round = 0; round < 20; round += 1) {
    const delivery = orderPlaced(`order-${round}`)
    const settlements = await Promise.all([one.process(delivery), two.process(delivery)])
    expect(settlements.filter((s) => s.kind === 'ack' && s.by === 'processed')).toHaveLength(1)
  }
  expect(await billing.charges()).toBe(20)
})

// Red when a copy that meets a running one is acked.
test('trap T8: a copy of an event in flight is not acked before the first one has ended', async () => {
  const gate = createGate()
  const first = billing.guard(async () => {
    await gate.pass()
    throw new Error('fails late')
  })
  const second = billing.guard(charge)
  const delivery = orderPlaced('order')
  const running = first.process(delivery)
  await gate.reached
  expect(await second.process(delivery)).toMatchObject({ kind: 'defer', reason: 'in-progress' })
  gate.open()
  expect(await running).toMatchObject({ kind: 'defer', reason: 'failed' })
  await billing.age()
  expect(await second.process(delivery)).toMatchObject({ by: 'processed' })
  expect(await billing.charges('order')).toBe(1)
})

// Red without a bound on the claim's wait: the copies then hold all connections until the holder ends.
test('trap T12: copies that wait for a row do not drain the pool', async () => {
  const guard = billing.guard(charge, { poolSize: 4, options: { concurrency: 2 } })
  await guard.process(orderPlaced('first'))
  await using _ = await holdRow('hot')
  const copies = Array.from({ length: 20 }, (_, n) =>
    billing
      .guard(charge, { poolSize: 4, options: { concurrency: 2 } })
      .process(orderPlaced('hot', { deliveryCount: n + 1 })),
  )
  expect(await soon(guard.process(orderPlaced('cold')))).toMatchObject({ by: 'processed' })
  for (const settlement of await soon(Promise.all(copies))) {
    expect(settlement).toMatchObject({ kind: 'defer', reason: 'in-progress' })
  }
})

// Red when the worker's clock decides who is late: one of the two would take the running event over.
test('trap T32: workers whose clocks are a day off take over no running event and do not wait for a day', async () => {
  for (const offsetMs of [-DAY_MS, DAY_MS]) {
    const gate = createGate()
    const key = `order${offsetMs}`
    const honest = billing.guard(async (event, context) => {
      await gate.pass()
      await charge(event, context)
    })
    const wrong = billing.guard(charge, { options: skewed(offsetMs) })
    const running = honest.process(redelivered(orderPlaced(key)))
    await gate.reached
    const settlement = await wrong.process(redelivered(orderPlaced(key)))
    expect(settlement).toMatchObject({ kind: 'defer', reason: 'in-progress' })
    const until = settlement.kind === 'defer' ? settlement.until : 0
    const waitMs = until - (Date.now() + offsetMs)
    expect(waitMs).toBeGreaterThan(-5_000)
    expect(waitMs).toBeLessThan(60_000)
    gate.open()
    await running
    expect(await wrong.process(orderPlaced(key))).toMatchObject({ by: 'duplicate' })
    expect(await billing.charges(key)).toBe(1)
  }
})
