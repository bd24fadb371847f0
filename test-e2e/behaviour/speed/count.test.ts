import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { migrate } from '@onceward/postgres'
import { database } from '@onceward/testing'
import { Pool } from 'pg'
import { expect, test } from 'vitest'

/*
 * Bounds on the work for one clean event, beside a store that does nothing and over a pool of the guard's own. Lower
 * them when the path becomes shorter.
 */
const MOST = { promises: 18, timers: 1, calls: 258 }
/** The handler's statement and pg itself are included. */
const MOST_OVER_PG = { promises: 30, timers: 4, calls: 273 }

async function count(...args: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const main = fileURLToPath(new URL('count-main.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--conditions=@onceward/source',
    main,
    ...args,
  ])
  return JSON.parse(stdout)
}

function expectAtMost(
  costs: Readonly<Record<string, number>>,
  bounds: Readonly<Record<string, number>>,
): void {
  for (const [name, most] of Object.entries(bounds)) {
    expect(costs[name], name).toBeGreaterThan(0)
    expect(costs[name], name).toBeLessThanOrEqual(most)
  }
}

test('a clean event makes no more promises, timers and calls than it did', async () => {
  expectAtMost(await count(), MOST)
})

test('a clean event over pg makes no more promises, timers and calls than it did', async () => {
  const { url } = await database()
  const pool = new Pool({ connectionString: url })
  await migrate(pool)
  await pool.end()
  expectAtMost(await count(url), MOST_OVER_PG)
})
