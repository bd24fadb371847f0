import type { Delivery, InboxGuardOptions, Settlement } from '@onceward/core'
import { eventIdOf, systemRuntime } from '@onceward/core/ports'
import { forgetHistory } from '@onceward/postgres'
import { sweep } from '@onceward/postgres/operator'
import { redisLeases } from '@onceward/redis'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import type { PoolClient } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Billing, charge, openBilling, orderPlaced, quiet } from '../traps/billing.ts'

let server: Server<RedisConnection>
let client: Redis
let billing: Billing

beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
  client = new Redis(server.connection.port)
})
beforeEach(async () => {
  await client.flushall()
  billing = await openBilling()
  return () => billing[Symbol.asyncDispose]()
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

const TABLES = ['onceward.processed_events', 'onceward.settings', 'public.charges']

/** A dump of the data, as `pg_dump --data-only` makes it. */
const dump = (): Promise<unknown> =>
  billing.admin.query(
    TABLES.map((table, index) => `create table public.dump_${index} as table ${table}`).join(';'),
  )

interface Restore {
  readonly empty: 'delete' | 'truncate'
  readonly tables: readonly string[]
  /** As `pg_restore --disable-triggers` does. */
  readonly triggers: boolean
}

async function restore({ empty, tables, triggers }: Restore): Promise<void> {
  const texts = tables.flatMap((table) => [
    empty === 'delete' ? `delete from ${table}` : `truncate ${table}`,
    `insert into ${table} table public.dump_${TABLES.indexOf(table)}`,
  ])
  const role = triggers ? 'origin' : 'replica'
  await billing.admin.query(
    `begin; set local session_replication_role = ${role}; ${texts.join(';')}; commit`,
  )
}

/** A guard, and time that passes on its clock. */
function running(more: Partial<InboxGuardOptions<unknown, PoolClient>> = {}) {
  let waitedMs = 0
  const errors: object[] = []
  const runtime = {
    ...systemRuntime,
    now: () => (systemRuntime.now() + waitedMs) as ReturnType<typeof systemRuntime.now>,
    monotonic: () => systemRuntime.monotonic() + waitedMs,
  }
  const guard = billing.guard(charge, {
    options: {
      ...{ runtime, leases: redisLeases(client, { budgetMs: 10_000 }) },
      logger: { ...quiet, error: (fields: object) => void errors.push(fields) },
      ...more,
    },
  })
  const settled = (delivery: Delivery): Promise<Settlement & { readonly kind: 'ack' }> =>
    until(async () => {
      const settlement = await guard.process(delivery)
      return settlement.kind === 'ack' && settlement
    })
  const wait = (ms: number): void => {
    waitedMs += ms
  }
  return { settled, wait, errors }
}

const RESTORES: readonly Restore[] = (['delete', 'truncate'] as const).flatMap((empty) =>
  [TABLES, TABLES.filter((table) => !table.endsWith('settings'))].flatMap((tables) =>
    [true, false].map((triggers) => ({ empty, tables, triggers })),
  ),
)

// Red when the identity of the history has no epoch: the event would be acked as a duplicate and never charged.
describe('an event that was done after the dump', () => {
  test.each(RESTORES)('is charged again after a restore and forgetHistory: %j', async (how) => {
    const { settled, wait } = running()
    const [old, lost] = [orderPlaced('old'), orderPlaced('lost')]
    await settled(old)
    await dump()
    // Twice: the epoch of the first restore must not come back with the second.
    for (const round of [1, 2]) {
      expect(await settled(lost)).toMatchObject({ by: 'processed' })
      expect(await settled(lost)).toMatchObject({ by: 'duplicate' })
      await restore(how)
      expect(await billing.charges('lost')).toBe(0)
      await forgetHistory(billing.admin)
      wait(5_001)
      expect([round, await settled(old)]).toMatchObject([round, { by: 'duplicate' }])
      expect(await billing.charges('old')).toBe(1)
    }
    expect(await settled(lost)).toMatchObject({ by: 'processed' })
    expect(await billing.charges('lost')).toBe(1)
  })

  test('is found by the doctor if forgetHistory was not called, and is charged again', async () => {
    const leases = redisLeases(client, { budgetMs: 10_000, hold: 'always' })
    const { settled, wait, errors } = running({ leases })
    await dump()
    const lost = orderPlaced('lost')
    await settled(lost)
    await restore({ empty: 'delete', tables: TABLES, triggers: false })
    // What the call is for.
    expect(await settled(lost)).toMatchObject({ by: 'duplicate' })
    expect(await billing.charges('lost')).toBe(0)
    await until(async () => {
      wait(60_001)
      await settled(orderPlaced('another'))
      return errors.length > 0
    })
    expect(errors).toMatchObject([{ remedy: 'select onceward.forget_history()' }])
    expect(await settled(lost)).toMatchObject({ by: 'processed' })
    expect(await billing.charges('lost')).toBe(1)
  })
})

test.each([
  ['deletes the row', 'delete from onceward.processed_events where event_id = $1'],
  ['makes it due again', "update onceward.processed_events set state = 'w' where event_id = $1"],
  // The guard believes what it remembers from the second copy on.
  ['deletes the row, without Redis', 'delete from onceward.processed_events where event_id = $1'],
  ['empties the table, without Redis', 'truncate onceward.processed_events'],
])('an event runs again when an operator %s, and calls nothing', async (what, text) => {
  const { settled, wait } = running(what.endsWith('without Redis') ? { leases: undefined } : {})
  await settled(orderPlaced('warm'))
  await settled(orderPlaced('warm'))
  const delivery = orderPlaced('again')
  await settled(delivery)
  expect(await settled(delivery)).toMatchObject({ by: 'duplicate' })
  const id = eventIdOf('billing', undefined, 'again')
  await billing.admin.query(text, text.includes('$1') ? [id] : [])
  wait(5_001)
  expect(await settled(delivery)).toMatchObject({ by: 'processed' })
  expect(await billing.charges('again')).toBe(2)
})

// Red when the duplicate is remembered like an event that was just done: for up to two hours.
test('Redis does not remember an event longer than its dedup window, and nobody calls that a loss', async () => {
  const window = { dedupWindowMs: 4 * 3_600_000 }
  const age = (minutes: number): Promise<unknown> =>
    billing.admin.query(
      `update onceward.processed_events set processed_at = processed_at - interval '${minutes} minutes'`,
    )
  const delivery = orderPlaced('old')
  expect(await running(window).settled(delivery)).toMatchObject({ by: 'processed' })
  await age(225)
  // Redis has lost it, and learns it again shortly before its window ends.
  await client.flushall()
  const { settled, wait, errors } = running(window)
  expect(await settled(delivery)).toMatchObject({ by: 'duplicate' })
  await age(20)
  // The sweeper of the guard may be first, and the other one then finds its lock taken or nothing to delete.
  await until(async () => {
    await sweep(billing.admin)
    const { rows } = await billing.admin.query('select from onceward.processed_events')
    return rows.length === 0
  })
  wait(60_001)
  await settled(orderPlaced('another'))
  expect(await settled(delivery)).toMatchObject({ by: 'processed' })
  expect(await billing.charges('old')).toBe(2)
  expect(errors).toEqual([])
})
