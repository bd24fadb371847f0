import { systemRuntime } from '@onceward/core/ports'
import { newDelivery, newEvent, registration, Steps } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { leastPrivilege } from '../fixtures/least-privilege.ts'
import { migrate } from '../operators/migrate.ts'
import { pgInbox } from '../pg.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox()
})
afterAll(() => inbox[Symbol.asyncDispose]())

const refusal = () => ({ delivery: newDelivery(), reason: 'invalid-payload', error: 'x' }) as const

it('counts the dead letters of its consumer alone, by reason, without those that an operator ended', async () => {
  const { session, steps } = inbox
  const other = await inbox.open({ consumer: 'mailing' })
  const [kept, discarded] = [newEvent(), newEvent()]
  await steps.buried(kept)
  await steps.buried(discarded)
  await session.refuse([refusal(), refusal()])
  await new Steps(other, inbox.pass).buried(newEvent())
  await inbox.deadLetters.discard(discarded.id, 'a test')
  expect(await session.figures?.()).toMatchObject({
    deadLetters: { fatal: 1, 'invalid-payload': 2 },
  })
  expect(await other.figures?.()).toMatchObject({ deadLetters: { fatal: 1 } })
})

it('tells how many replayed events wait, and for how long', async () => {
  const { session, steps } = inbox
  expect(await session.figures?.()).toMatchObject({ parked: 0, parkedForMs: 0 })
  const event = newEvent()
  await steps.buried(event)
  await inbox.deadLetters.replay(event.id)
  await inbox.pass(60_000)
  const figures = await session.figures?.()
  expect(figures?.parked).toBe(1)
  expect(figures?.parkedForMs).toBeGreaterThanOrEqual(60_000)
})

it('tells the size of every table, in any schema name', async () => {
  const admin = inbox.pool
  await using roles = await leastPrivilege(admin, inbox.url)
  const schema = `fig's "1"`
  await roles.apply(schema)
  // Under the role of consumers: a guard must be able to ask.
  const session = await pgInbox(roles.billing, { schema }).open(registration(systemRuntime))
  const figures = await session.figures?.()
  const names = figures?.tables.map(({ name }) => name)
  expect(names).toEqual(expect.arrayContaining(['processed_events', 'failed_events', 'leases']))
  for (const { bytes, rows } of figures?.tables ?? []) {
    expect(bytes).toBeGreaterThan(0)
    expect(rows).toBeGreaterThanOrEqual(0)
  }
})

// Red when all tables of the schema are told: a metric would have a series for each table of the application.
it('tells all tables that migrate makes, and none of others in the same schema', async () => {
  const { pool } = inbox
  await migrate(pool, { schema: 'public' })
  const made = await pool.query(
    "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
  )
  await pool.query('create table public.orders (id integer)')
  const session = await pgInbox(pool, { schema: 'public' }).open(registration(systemRuntime))
  const names = (await session.figures?.())?.tables.map(({ name }) => name)
  expect(names).toEqual(made.rows.map(({ relname }) => String(relname)).toSorted())
})

it('tells how the pool is used, and nothing that a client does not know', async () => {
  const pool = new pg.Pool({ connectionString: inbox.url, max: 3 })
  const session = await pgInbox(pool).open({ ...registration(systemRuntime), concurrency: 1 })
  const client = await pool.connect()
  expect(session.poolUse?.()).toEqual({ used: 1, idle: 0, waiting: 0, size: 3 })
  client.release()
  expect(session.poolUse?.()).toEqual({ used: 0, idle: 1, waiting: 0, size: 3 })
  await pool.end()
})
