import { migrate } from '@onceward/postgres'
import { database } from '@onceward/testing'
import { Pool } from 'pg'
import { test } from 'vitest'
import { count, expectAtMost } from './expect-at-most.ts'

/*
 * Bounds on the work for one clean event, beside a store that does nothing and over a pool of the guard's own. They have
 * room on purpose: between 191 and 150 calls no ratio of the benchmarks changed. What they notice is a doubled path.
 */
const MOST = { promises: 18, timers: 1, calls: 200 }
/** The handler's statement and pg itself are included. */
const MOST_OVER_PG = { promises: 30, timers: 4, calls: 213 }

test('a clean event makes no more promises, timers and calls than it did', async () => {
  expectAtMost(await count('count-main'), MOST)
})

test('a clean event over pg makes no more promises, timers and calls than it did', async () => {
  const { url } = await database()
  const pool = new Pool({ connectionString: url })
  await migrate(pool)
  await pool.end()
  expectAtMost(await count('count-main', url), MOST_OVER_PG)
})
