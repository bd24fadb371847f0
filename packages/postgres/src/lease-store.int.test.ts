import { systemRuntime } from '@onceward/core'
import { database } from '@onceward/testing'
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
import { type PostgresLeasesOptions, postgresLeases } from './lease-store.ts'
import { type MigrateOptions, migrate } from './migrate.ts'
import { quotedSchema } from './schema.ts'

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

describe('postgresLeases', () => {
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

describe('postgresLeases', () => {
  const registration = {
    consumer: 'billing',
    leaseMs: LEASE_MS,
    dedupWindowMs: 86_400_000,
    logger: silent,
    runtime: systemRuntime,
  }

  it('beside an inbox keeps nothing of what ended', async () => {
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

  it('forgets what was done when the time is over, and deletes it on the way', async () => {
    const where = await migrated()
    let passedMs = 0
    const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + passedMs }
    const session = await postgresLeases(pool, where).open?.({ ...registration, runtime })
    const claims = Array.from({ length: 1_500 }, () => newClaim())
    await session?.claim(claims)
    await session?.complete(claims, 60_000)
    await passTime(where, 61_000)
    passedMs = 61_000
    const [again] = claims.map(({ id }) => newClaim({ id }))
    expect(await session?.claim([again ?? newClaim()])).toEqual([first])
    expect(await count(where)).toBe(500)
    await session?.claim([newClaim()])
    expect(await count(where)).toBe(2)
  })

  it('without an inbox says that a crash would empty an unlogged table', async () => {
    const where = await migrated({ leases: 'unlogged' })
    const told: object[] = []
    const logger = { ...silent, warn: (fields: object): void => void told.push(fields) }
    await postgresLeases(pool, where).open?.({ ...registration, logger })
    expect(told).toEqual([{ consumer: 'billing', remedy: "migrate(pool, { leases: 'logged' })" }])
    await migrate(pool, { ...where, leases: 'logged' })
    await postgresLeases(pool, where).open?.({ ...registration, logger })
    expect(told).toHaveLength(1)
  })

  it('says how to get its table', async () => {
    const opening = postgresLeases(pool, { schema: 'nowhere' }).open?.(registration)
    await expect(opening).rejects.toThrow(/run `await migrate\(pool\)`/)
  })

  it('writes nothing for a duplicate', async () => {
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
