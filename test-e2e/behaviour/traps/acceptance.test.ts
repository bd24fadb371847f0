import { toDelivery } from '@onceward/core/memory'
import { deadLetters } from '@onceward/postgres'
import { proxy, swallowReplyTo, until } from '@onceward/testing'
import { afterAll, beforeEach, expect, test } from 'vitest'
import {
  type Billing,
  charge,
  createGate,
  openBilling,
  orderPlaced,
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

async function throughProxy() {
  const { hostname, port } = new URL(billing.url)
  const hole = await proxy({ host: hostname, port: Number(port) })
  const url = new URL(billing.url)
  url.hostname = hole.host
  url.port = String(hole.port)
  return { hole, url: url.href }
}

// Red when an unknown COMMIT is taken for a failure (doubled) or for a success without looking (lost).
test('acceptance A1: a COMMIT whose reply is lost is looked up, and the effect happens once', async () => {
  const { hole, url } = await throughProxy()
  await using _ = hole
  const guard = billing.guard(charge, { url })
  await guard.process(orderPlaced('before'))
  hole.onData = swallowReplyTo(/\bcommit\b/i, 1)
  const settlement = await guard.process(orderPlaced('order'))
  expect(settlement).toMatchObject({ kind: 'ack', by: 'processed' })
  expect(await billing.charges('order')).toBe(1)
  expect(await guard.process(orderPlaced('order'))).toMatchObject({ by: 'duplicate' })
})

// Red when the handle still works after the deadline.
test('acceptance A4: an owner that stalls past its deadline cannot commit over its successor', async () => {
  const gate = createGate()
  let late: unknown
  const stalled = billing.guard(
    async (event, context) => {
      await gate.pass()
      late = await charge(event, context).then(
        () => 'written',
        (error: unknown) => (error as { code?: unknown }).code,
      )
    },
    { options: { deadlineMs: 1_000 } },
  )
  const delivery = orderPlaced('order')
  const settlement = await stalled.process(delivery)
  expect(settlement).toMatchObject({ reason: 'failed' })
  await billing.age()
  expect(await billing.guard(charge).process(delivery)).toMatchObject({ by: 'processed' })
  gate.open()
  await until(() => late !== undefined)
  expect(late).toBe('ONCEWARD_DEADLINE_EXCEEDED')
  expect(await billing.charges('order')).toBe(1)
})

// Red when release and fail do not compare the owner token.
test('acceptance A5: an owner that lost its claim cannot change what its successor has', async () => {
  const gate = createGate()
  let zombiePid: unknown
  const zombie = billing.guard(async (_, { tx }) => {
    const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
    zombiePid = rows[0]?.pid
    await gate.pass()
  })
  const delivery = redelivered(orderPlaced('order'))
  const running = zombie.process(delivery)
  await gate.reached
  await billing.admin.query('select pg_terminate_backend($1)', [zombiePid])
  await until(
    async () =>
      (await billing.value('select count(*) from pg_stat_activity where pid = $1', [zombiePid])) ===
      '0',
  )
  await billing.age()
  expect(await billing.guard(charge).process(delivery)).toMatchObject({ by: 'processed' })
  gate.open()
  expect(await running).not.toMatchObject({ kind: 'ack', by: 'processed' })
  expect(await billing.value('select state::text from onceward.processed_events')).toBe('d')
  expect(await billing.charges('order')).toBe(1)
})

// Red when the deadline only rejects and leaves the statement and the handler alone.
test('acceptance A6: a deadline inside a statement leaves no stray row', async () => {
  let second: unknown
  const guard = billing.guard(
    async (event, { tx }) => {
      await tx.query('select pg_sleep(30)').catch(() => undefined)
      second = await tx.query('insert into charges values ($1, 0)', [event.key]).catch((e) => e)
    },
    { options: { deadlineMs: 1_000 } },
  )
  expect(await guard.process(orderPlaced('order'))).toMatchObject({
    kind: 'defer',
    reason: 'failed',
  })
  await until(() => second !== undefined)
  expect(second).toBeInstanceOf(Error)
  expect(await billing.charges()).toBe(0)
  await until(
    async () =>
      (await billing.value(
        `select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and pid <> pg_backend_pid() and state = 'active'`,
      )) === '0',
  )
})

test('acceptance A9: the order of keys in JSON does not matter', async () => {
  const guard = billing.guard(charge)
  const one = toDelivery({}, { messageId: 'order', body: Buffer.from('{"a":1,"b":2}') })
  const two = toDelivery({}, { messageId: 'order', body: Buffer.from('{ "b": 2.0, "a": 1 }') })
  expect(await guard.process(one)).toMatchObject({ by: 'processed' })
  expect(await guard.process(two)).toMatchObject({ by: 'duplicate' })
})

// Red when the claim outlives the rollback, or the partial writes do.
test('acceptance A19: an error after partial writes rolls back, and the redelivery processes', async () => {
  let fails = true
  const guard = billing.guard(async (event, context) => {
    await charge(event, context)
    if (fails) throw new Error('after the write')
  })
  expect(await guard.process(orderPlaced('order'))).toMatchObject({ reason: 'failed' })
  expect(await billing.charges()).toBe(0)
  fails = false
  await billing.age()
  expect(await guard.process(orderPlaced('order'))).toMatchObject({ by: 'processed' })
  expect(await billing.charges('order')).toBe(1)
})

// Red when a replay resets whatever state it finds.
test('acceptance A20: a done event is not replayed', async () => {
  const guard = billing.guard(charge)
  await guard.process(orderPlaced('order'))
  const id = String(await billing.value('select event_id::text from onceward.processed_events'))
  await Promise.resolve(deadLetters(billing.admin).replay(id)).catch(() => undefined)
  expect(await billing.value('select state::text from onceward.processed_events')).toBe('d')
  expect(await guard.process(orderPlaced('order'))).toMatchObject({ by: 'duplicate' })
})

// Red when a store that is down makes the consumer drop, ack or dead-letter what it holds.
test('trap T15: an outage of the store loses nothing and dead-letters nothing', async () => {
  const { hole, url } = await throughProxy()
  await using _ = hole
  const guard = billing.guard(charge, { url })
  await guard.process(orderPlaced('before'))
  hole.refuse(true)
  hole.cut()
  for (let n = 0; n < 3; n += 1) {
    const settlement = await guard.process(orderPlaced('during'))
    expect(settlement).toMatchObject({ kind: 'defer', reason: 'store-down' })
  }
  hole.refuse(false)
  await until(
    async () => {
      const settlement = await guard.process(orderPlaced('during'))
      return settlement.kind === 'ack'
    },
    { deadlineMs: 30_000 },
  )
  expect(await billing.charges('during')).toBe(1)
  expect(await billing.value('select count(*) from onceward.failed_events')).toBe('0')
})
