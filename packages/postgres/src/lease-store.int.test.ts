import { type Held, type HeldAnswer, systemRuntime } from '@onceward/core/ports'
import { database, turnOf, until } from '@onceward/testing'
import {
  LEASE_MS,
  type LeaseStoreUnderTest,
  leaseStoreConformance,
  leaseStoreModel,
  newClaim,
  silent,
} from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { lockWaiters } from './fixtures/inbox.ts'
import { type PostgresLeases, type PostgresLeasesOptions, postgresLeases } from './lease-store.ts'
import { type MigrateOptions, migrate } from './operators/migrate.ts'
import { quotedSchema } from './statements/schema-name.ts'

let pool: pg.Pool
let schemas = 0

beforeAll(async () => {
  const { url } = await database()
  pool = new pg.Pool({ connectionString: url, max: 10 })
})
afterAll(() => pool.end())

/** Each test has a schema of its own, with a name that must be quoted. */
async function migrated(options: MigrateOptions = {}): Promise<{ readonly schema: string }> {
  schemas += 1
  const schema = `leases "${schemas}"`
  await migrate(pool, { ...options, schema })
  return { schema }
}

async function passTime({ schema }: PostgresLeasesOptions, ms: number): Promise<void> {
  const back = `interval '${ms} milliseconds'`
  const table = `${quotedSchema(schema)}.leases`
  await pool.query(
    `update ${table} set ends_at = ends_at - ${back}, forget_at = forget_at - ${back}`,
  )
}

async function makeStore(options: MigrateOptions): Promise<LeaseStoreUnderTest> {
  const where = await migrated(options)
  return {
    store: postgresLeases(pool, where),
    pass: (ms) => passTime(where, ms),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

leaseStoreConformance('postgresLeases', () => makeStore({}), { rivals: 10_000 })
leaseStoreConformance('postgresLeases, unlogged', () => makeStore({ leases: 'unlogged' }), {
  rivals: 10_000,
})

describe('postgresLeases', turnOf(2, { of: 4 }), () => {
  let store: LeaseStoreUnderTest
  beforeAll(async () => {
    store = await makeStore({})
  })
  leaseStoreModel('postgresLeases', () => store, { runs: 60, steps: 60, commands: 3_000 })
})

const first = { kind: 'acquired', by: 'first', attempt: 1 }

async function count({ schema }: PostgresLeasesOptions): Promise<number> {
  const { rows } = await pool.query(`select count(*)::int as n from ${quotedSchema(schema)}.leases`)
  return rows[0].n
}

/** The answer when a rival locks the row first, and has claimed the event when it releases the lock. */
async function overtaken<Answer>(
  { schema }: PostgresLeasesOptions,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  const table = `${quotedSchema(schema)}.leases`
  const rival = await pool.connect()
  await rival.query(`begin; select from ${table} for update`)
  const asking = ask()
  await until(async () => (await lockWaiters(pool)) === 1)
  await rival.query(`update ${table} set state = 'p', owner = 'rival', reason = null,
    ends_at = now() + interval '1 hour', forget_at = now() + interval '2 hours'; commit`)
  rival.release()
  return asking
}

const VERBS = {
  renew: (leases, mine) => leases.renew([mine], LEASE_MS),
  complete: (leases, mine) => leases.complete([mine], 60_000),
  fail: (leases, mine) => leases.fail([{ ...mine, delayMs: 0 }]),
  release: (leases, mine) => leases.release([mine]),
  bury: (leases, mine) => leases.bury([{ ...mine, reason: 'fatal' }], 60_000),
} satisfies Record<string, (leases: PostgresLeases, mine: Held) => Promise<readonly HeldAnswer[]>>

// Red when a statement decides by the row as it was before it had the lock: both would own the event.
describe('postgresLeases in a race', () => {
  it.each([
    ['due', 0],
    ['done', 61_000],
  ] as const)(
    'answers a claim of an event that was %s by the state that a rival left',
    async (state, ms) => {
      const where = await migrated()
      const leases = postgresLeases(pool, where)
      const mine = newClaim()
      await leases.claim([mine])
      if (state === 'due') await leases.fail([{ ...mine, delayMs: 0 }])
      else await leases.complete([mine], 60_000)
      await passTime(where, ms)
      const claiming = await overtaken(where, () => leases.claim([newClaim({ id: mine.id })]))
      expect(claiming).toMatchObject([{ kind: 'in-progress' }])
    },
  )

  it.each(Object.entries(VERBS))(
    'answers an owner who was replaced meanwhile with lost: %s',
    async (_, verb) => {
      const where = await migrated()
      const leases = postgresLeases(pool, where)
      const mine = newClaim()
      await leases.claim([mine])
      expect(await overtaken(where, () => verb(leases, mine))).toEqual(['lost'])
      const next = newClaim({ id: mine.id })
      expect(await leases.claim([next])).toMatchObject([{ kind: 'in-progress' }])
    },
  )

  // Red when a statement locks its rows in the order it finds them: two that share some would deadlock.
  it('locks none of the events after the one it waits for', async () => {
    const where = await migrated()
    const leases = postgresLeases(pool, where)
    const claims = Array.from({ length: 20 }, () => newClaim())
    await leases.claim(claims)
    const [first, ...rest] = claims.map(({ id }) => id).toSorted()
    const lock = `select from ${quotedSchema(where.schema)}.leases where event_id = any($1) for update nowait`
    const rival = await pool.connect()
    await rival.query('begin')
    await rival.query(lock, [[first]])
    const renewing = leases.renew(claims, LEASE_MS)
    await until(async () => (await lockWaiters(pool)) === 1)
    const free = await rival.query(lock, [rest]).catch((error: unknown) => error)
    await rival.query('rollback')
    rival.release()
    expect(free).toMatchObject({ rowCount: rest.length })
    expect(new Set(await renewing)).toEqual(new Set(['held']))
  })

  it('does not replay an event that was replayed and claimed meanwhile', async () => {
    const where = await migrated()
    const leases = postgresLeases(pool, where)
    const dead = newClaim()
    await leases.claim([dead])
    await leases.bury([{ ...dead, reason: 'fatal' }], 60_000)
    expect(await overtaken(where, () => leases.replay([dead.id]))).toEqual([false])
    expect(await leases.claim([newClaim({ id: dead.id })])).toMatchObject([{ kind: 'in-progress' }])
  })
})

describe('postgresLeases', () => {
  const registration = {
    consumer: 'billing',
    leaseMs: LEASE_MS,
    dedupWindowMs: 86_400_000,
    logger: silent,
    runtime: systemRuntime,
  }

  it('beside an inbox keep no ended events', async () => {
    const where = await migrated()
    const identity = async (): Promise<string> => 'history'
    const session = await postgresLeases(pool, where).open?.({ ...registration, identity })
    const [done, dead] = [newClaim(), newClaim()]
    await session?.claim([done, dead])
    expect(await session?.complete([done], 60_000)).toEqual(['held'])
    expect(await session?.bury([{ ...dead, reason: 'fatal' }], 60_000)).toEqual(['held'])
    expect(await session?.complete([done], 60_000)).toEqual(['lost'])
    expect(await count(where)).toBe(0)
  })

  it('forget a done event after its time, and delete it during later claims', async () => {
    const where = await migrated()
    let passedMs = 0
    const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + passedMs }
    const session = await postgresLeases(pool, where).open?.({ ...registration, runtime })
    const claims = Array.from({ length: 1_500 }, () => newClaim())
    await session?.claim(claims)
    await session?.complete(claims, 60_000)
    await passTime(where, 61_000)
    const [again] = claims.map(({ id }) => newClaim({ id }))
    expect(await session?.claim([again ?? newClaim()])).toEqual([first])
    expect(await count(where)).toBe(1_500)
    passedMs = 61_000
    await session?.claim([newClaim()])
    expect(await count(where)).toBe(501)
    await session?.claim([newClaim()])
    expect(await count(where)).toBe(3)
  })

  it('remember an event that waits longer than the dedup window', async () => {
    const where = await migrated()
    const short = { ...registration, dedupWindowMs: 60_000 }
    const session = await postgresLeases(pool, where).open?.(short)
    const mine = newClaim()
    await session?.claim([mine])
    await session?.fail([{ ...mine, delayMs: 600_000 }])
    await passTime(where, 601_000)
    const retry = { kind: 'acquired', by: 'retry', attempt: 2 }
    expect(await session?.claim([newClaim({ id: mine.id })])).toEqual([retry])
  })

  it('forget with an event that it was replayed', async () => {
    const where = await migrated()
    const leases = postgresLeases(pool, where)
    const [dead, again, next] = [newClaim(), newClaim(), newClaim()]
    await leases.claim([dead])
    await leases.bury([{ ...dead, reason: 'fatal' }], 60_000)
    await leases.replay([dead.id])
    await leases.claim([{ ...again, id: dead.id }])
    await leases.complete([{ ...again, id: dead.id }], 60_000)
    await passTime(where, 61_000)
    expect(await leases.claim([{ ...next, id: dead.id }])).toEqual([first])
    expect(await leases.release([{ ...next, id: dead.id }])).toEqual(['held'])
    expect(await count(where)).toBe(0)
  })

  it('give operators no events that may be forgotten', async () => {
    const where = await migrated()
    const leases = postgresLeases(pool, where)
    const dead = newClaim()
    await leases.claim([dead])
    await leases.bury([{ ...dead, reason: 'fatal' }], 60_000)
    await passTime(where, 61_000)
    expect(await leases.replay([dead.id])).toEqual([false])
    expect(await leases.forget([dead.id])).toEqual([false])
    expect(await leases.claim([newClaim({ id: dead.id })])).toEqual([first])
  })

  it('sweep without waiting for claims, and one sweep at a time', async () => {
    const where = await migrated()
    const table = `${quotedSchema(where.schema)}.leases`
    let passedMs = 0
    const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + passedMs }
    const session = await postgresLeases(pool, where).open?.({ ...registration, runtime })
    const old = newClaim()
    await session?.claim([old])
    await session?.complete([old], 60_000)
    await passTime(where, 61_000)
    const other = await pool.connect()
    await other.query(`begin; select from ${table} for update`)
    passedMs += 61_000
    await session?.claim([newClaim()])
    const waiting = await lockWaiters(pool)
    await other.query(`rollback; begin; select pg_advisory_xact_lock(hashtextextended(
      'onceward.leases:' || quote_ident('${where.schema}'), 0))`)
    passedMs += 61_000
    await session?.claim([newClaim()])
    const kept = await count(where)
    await other.query('commit')
    other.release()
    expect({ waiting, kept }).toEqual({ waiting: 0, kept: 3 })
    passedMs += 61_000
    await session?.claim([newClaim()])
    expect(await count(where)).toBe(3)
  })

  it('without an inbox warn that a crash would empty an unlogged table', async () => {
    const where = await migrated({ leases: 'unlogged' })
    const told: object[] = []
    const logger = { ...silent, warn: (fields: object): void => void told.push(fields) }
    await postgresLeases(pool, where).open?.({ ...registration, logger })
    expect(told).toEqual([{ consumer: 'billing', remedy: "migrate(pool, { leases: 'logged' })" }])
    await migrate(pool, { ...where, leases: 'logged' })
    await postgresLeases(pool, where).open?.({ ...registration, logger })
    expect(told).toHaveLength(1)
  })

  it('name the call that creates their table', async () => {
    const opening = postgresLeases(pool, { schema: 'nowhere' }).open?.(registration)
    await expect(opening).rejects.toThrow(/run `await migrate\(pool\)`/)
  })

  it('write nothing for a duplicate', async () => {
    const where = await migrated()
    const leases = postgresLeases(pool, where)
    const done = newClaim()
    await leases.claim([done])
    await leases.complete([done], 60_000)
    const version = async (): Promise<unknown> =>
      (await pool.query(`select ctid, xmin, xmax from ${quotedSchema(where.schema)}.leases`)).rows
    const before = await version()
    expect(await leases.claim([newClaim({ id: done.id })])).toMatchObject([{ kind: 'duplicate' }])
    expect(await version()).toEqual(before)
  })
})
