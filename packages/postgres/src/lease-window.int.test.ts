import { systemRuntime } from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { LEASE_MS, newClaim, silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { expect, test } from 'vitest'
import { postgresLeases } from './lease-store.ts'
import { migrate } from './operators/migrate.ts'

// Red before: the row of a run that took longer than the dedup window was forgotten, and a copy ran beside it.
test('a lease is renewed for longer than the dedup window', async () => {
  const { url } = await database()
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  await migrate(pool)
  const pass = async (ms: number): Promise<void> => {
    await pool.query(
      `update onceward.leases set ends_at = ends_at - $1::float8 * interval '1 millisecond',
         forget_at = forget_at - $1::float8 * interval '1 millisecond'`,
      [ms],
    )
  }
  const session = await postgresLeases(pool).open?.({
    ...{ consumer: 'billing', leaseMs: LEASE_MS, dedupWindowMs: LEASE_MS },
    ...{ logger: silent, runtime: systemRuntime },
  })
  const mine = newClaim()
  const copy = newClaim({ id: mine.id })
  await session?.claim([mine])
  for (let renewals = 0; renewals < 5; renewals += 1) {
    await pass(LEASE_MS / 2)
    expect(await session?.renew([mine], LEASE_MS)).toEqual(['held'])
  }
  expect(await session?.claim([copy])).toMatchObject([{ kind: 'in-progress' }])
  // And an owner that nobody has replaced, long after its lease.
  await pass(3 * LEASE_MS)
  expect(await session?.fail([{ ...mine, delayMs: 1.5 * LEASE_MS }])).toEqual(['held'])
  await pass(LEASE_MS)
  expect(await session?.claim([copy])).toMatchObject([{ kind: 'not-due' }])
  await pool.end()
})
